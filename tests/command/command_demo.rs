//! Set-up: `kvatlas demo`, alone and against a daemon that runs.
//! Claim: it ends with exit code 0, says that every answer was the expected one, and leaves nothing behind.

use std::process::{Command, Output};

fn demo(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvatlas"));
    let Output { status, stdout, stderr } = command.arg("demo").args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn the_demo_checks_its_own_answers() {
    let (code, said, complained) = demo(&[]);
    assert_eq!(code, Some(0), "{said}{complained}");
    assert!(said.contains("all 3 answers are what the published events say"), "{said}");
    assert!(said.contains("Mooncake"), "{said}");
    assert_eq!(complained, "");
}

#[test]
fn without_a_daemon_it_says_so() {
    // port 9 of this machine: nobody discards there any more
    let (code, said, complained) = demo(&["--target", "http://127.0.0.1:9"]);
    assert_eq!(code, Some(69), "{said}{complained}");
    assert!(complained.contains("cannot connect to http://127.0.0.1:9"), "{complained}");
}
