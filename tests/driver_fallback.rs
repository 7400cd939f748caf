//! Set-up: a thread under a seccomp filter that answers io_uring_setup with an error, as container runtimes
//! do by default. Claim: `auto` runs on epoll and says why and what to do; a demanded io_uring is an error with
//! the same words; epoll is not touched by it. A runtime without epoll refuses it by name, and its `auto` is a demanded
//! io_uring.
#![allow(unsafe_code)] // the filter is installed by prctl, which nothing safe wraps

use std::io;
use std::thread;
use std::time::Duration;

use kvatlas::rt::driver::Unavailable;
use kvatlas::rt::{self, Driver, DriverError};

/// Makes io_uring_setup fail with `errno` on this thread, for ever.
fn forbid_io_uring(errno: i32) {
    let code = |code: u32| code as u16;
    let statement = |code: u16, k: u32| libc::sock_filter { code, jt: 0, jf: 0, k };
    let number = libc::SYS_io_uring_setup as u32;
    let mut filter = [
        statement(code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS), 0),
        libc::sock_filter {
            code: code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K),
            jt: 0,
            jf: 1,
            k: number,
        },
        statement(code(libc::BPF_RET | libc::BPF_K), libc::SECCOMP_RET_ERRNO | errno as u32),
        statement(code(libc::BPF_RET | libc::BPF_K), libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its filter live through the call, which copies them.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

fn under_filter(errno: i32, test: impl FnOnce() + Send + 'static) {
    thread::spawn(move || {
        forbid_io_uring(errno);
        test();
    })
    .join()
    .unwrap();
}

fn epoll_is_built_in() -> bool {
    rt::DRIVERS.contains(&Driver::Epoll)
}

#[test]
fn auto_falls_back_and_says_why() {
    for (errno, word) in [
        (libc::EPERM, "seccomp"),
        (libc::EACCES, "kernel.io_uring_disabled"),
        (libc::ENOSYS, "kernel"),
        (libc::ENOMEM, "memlock"),
    ] {
        under_filter(errno, move || {
            let outcome = rt::run(Driver::Auto, |chosen| async move {
                rt::sleep(Duration::from_millis(1)).await;
                chosen
            });
            let reason = match outcome {
                Ok(chosen) if epoll_is_built_in() => {
                    assert_eq!(chosen.name, "epoll");
                    chosen.fallback.unwrap()
                }
                Err(DriverError::IoUring(reason)) if !epoll_is_built_in() => reason,
                other => panic!("{other:?}"),
            };
            assert_eq!(reason.errno, Some(errno));
            assert!(reason.to_string().contains(word), "{reason}");
        });
    }
}

#[test]
fn a_demanded_io_uring_is_an_error_with_the_remedy() {
    under_filter(libc::EPERM, || match rt::run(Driver::IoUring, |_| async {}) {
        Err(DriverError::IoUring(reason)) => assert!(reason.to_string().contains("seccomp"), "{reason}"),
        other => panic!("{other:?}"),
    });
}

#[test]
fn epoll_is_what_was_asked_for_or_refused_by_name() {
    under_filter(libc::EPERM, || match rt::run(Driver::Epoll, |chosen| async move { chosen }) {
        Ok(chosen) if epoll_is_built_in() => assert_eq!((chosen.name, chosen.fallback), ("epoll", None)),
        Err(error @ DriverError::NoEpoll(_)) if !epoll_is_built_in() => {
            assert!(error.to_string().contains(rt::RUNTIME), "{error}");
        }
        other => panic!("{other:?}"),
    });
}

#[test]
fn every_error_has_a_remedy() {
    for errno in 1..134 {
        let reason = Unavailable::new(&io::Error::from_raw_os_error(errno));
        assert!(reason.to_string().contains("epoll") || reason.to_string().contains("nofile"), "{reason}");
    }
    for (text, driver) in [("auto", Driver::Auto), ("io_uring", Driver::IoUring), ("epoll", Driver::Epoll)] {
        assert_eq!(text.parse(), Ok(driver));
    }
    assert!("uring".parse::<Driver>().unwrap_err().contains("io_uring"));
}
