//! Set-up: this test program again, in a process of its own, with and without `MIMALLOC_PURGE_DELAY`. Claim: memory that
//! became free is kept for as long as the limits say, and as the environment says where it says so.

use std::process::Command;

use kvatlas::limits::FREE_MEMORY_MILLIS;
use kvatlas::rt::allocator::{give_back_early, keeps_free_memory};

/// Set in the second process: what is right there.
const RIGHT: &str = "KVATLAS_TEST_KEEPS";

#[test]
fn free_memory_is_kept_as_long_as_the_limits_or_the_environment_say() {
    if let Ok(right) = std::env::var(RIGHT) {
        give_back_early();
        assert_eq!(keeps_free_memory().to_string(), right);
        return;
    }
    let name = "free_memory::free_memory_is_kept_as_long_as_the_limits_or_the_environment_say";
    for (said, right) in [(None, FREE_MEMORY_MILLIS.to_string()), (Some("123"), "123".to_owned())] {
        let mut again = Command::new(std::env::current_exe().expect("a path"));
        again.args(["--exact", name]).env(RIGHT, right).env_remove("MIMALLOC_PURGE_DELAY");
        again.envs(said.map(|said| ("MIMALLOC_PURGE_DELAY", said)));
        let out = again.output().expect("a process");
        let told = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success() && told.contains("1 passed"), "{said:?}: {told}");
    }
}
