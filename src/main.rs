//! Start-up and exit codes only.

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> std::process::ExitCode {
    // the allocator asks for huge pages, which a small index leaves half empty
    kvatlas::rt::sys::allow_huge_pages(false);
    kvatlas::rt::allocator::give_back_early();
    kvatlas::cli::run()
}
