//! Set-up: endpoints as operators write them. Claim: what can be connected to passes unchanged; what only a
//! publisher can bind, what reaches nothing and what is spelled wrong is refused with a sentence that says
//! why. libzmq takes whatever passes.

use kvatlas::stream::endpoint::{Scheme, check};
use proptest::prelude::*;

#[test]
fn addresses_names_and_socket_files_pass() {
    for endpoint in [
        "tcp://10.0.0.1:5557",
        "tcp://127.0.0.1:1",
        "tcp://[::1]:65535",
        "tcp://[2001:db8::7]:5557",
        "tcp://[fe80::1%eth0]:5557",
        "tcp://engine-0.engines.default.svc.cluster.local:5557",
        "tcp://engine_0:5557",
        "tcp://engine.example.org.:5557",
    ] {
        let checked = check(endpoint).unwrap();
        assert_eq!((checked.as_str(), checked.scheme()), (endpoint, Scheme::Tcp));
    }
    for endpoint in ["ipc:///run/engine/events", "ipc://events", "ipc://@abstract"] {
        assert_eq!(check(endpoint).unwrap().scheme(), Scheme::Ipc);
    }
}

#[test]
fn refusals_say_why() {
    for (endpoint, why) in [
        ("tcp://*:5557", "binds"),
        ("tcp://0.0.0.0:5557", "binds"),
        ("tcp://[::]:5557", "binds"),
        ("tcp://[0:0:0:0:0:0:0:0]:5557", "binds"),
        ("tcp://[::ffff:0.0.0.0]:5557", "binds"),
        ("ipc://*", "binds"),
        ("inproc://events", "own process"),
        ("udp://10.0.0.1:5557", "not supported"),
        ("TCP://10.0.0.1:5557", "not supported"),
        ("http://10.0.0.1:5557", "not supported"),
        ("10.0.0.1:5557", "neither"),
        ("", "neither"),
        ("tcp://", "no host"),
        ("tcp://:5557", "no host"),
        ("tcp://::1:5557", "tcp://[::1]:5557"),
        ("tcp://2001:db8::7:5557", "tcp://[2001:db8::7]:5557"),
        ("tcp://2001:db8:0:0:0:0:0:7", "tcp://[2001:db8:0:0:0:0:0:7]:PORT"),
        ("tcp://a:b:1", "more than one colon"),
        ("tcp://[::1:5557", "bracket"),
        ("tcp://[::1]", "port"),
        ("tcp://[::1]5557", "port"),
        ("tcp://[engine]:5557", "not an IPv6"),
        ("tcp://[fe80::1%]:5557", "zone"),
        ("tcp://engine", "port"),
        ("tcp://engine:", "port"),
        ("tcp://engine:0", "port"),
        ("tcp://engine:65536", "port"),
        ("tcp://engine:+1", "port"),
        ("tcp://engine:*", "port"),
        ("tcp://10.0.0:5557", "not an IPv4"),
        ("tcp://0:5557", "not an IPv4"),
        ("tcp://256.0.0.1:5557", "not an IPv4"),
        ("tcp://eng..ine:5557", "not a host name"),
        ("tcp://-engine:5557", "not a host name"),
        ("tcp://engine-:5557", "not a host name"),
        ("tcp://_engine:5557", "not a host name"),
        ("tcp://user@engine:5557", "not HOST:PORT"),
        ("tcp://lo;engine:5557", "not HOST:PORT"),
        ("tcp://engine:5557/path", "not HOST:PORT"),
        ("tcp://eng ine:5557", "contains"),
        ("tcp://engine:5557\n", "contains"),
        ("tcp://eng\0ine:5557", "contains"),
        ("ipc://", "path"),
    ] {
        let error = check(endpoint).unwrap_err();
        assert!(error.contains(why), "{endpoint:?}: {error}");
    }
    assert!(check(&format!("ipc:///{}", "x".repeat(107))).unwrap_err().contains("107"));
    assert!(check(&format!("tcp://{}:1", "x.".repeat(300))).unwrap_err().contains("512"));
}

proptest! {
    #[test]
    fn what_passes_libzmq_takes(
        host in "(\\[([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}\\]|\\[[0-9a-f]{1,4}::[0-9a-f:]{1,6}\\]|[a-z0-9.:*_-]{0,12}|[0-9]{1,3}(\\.[0-9]{1,3}){3})",
        port in "([1-9][0-9]{0,4}|[0-9*:]{0,6})",
    ) {
        let endpoint = format!("tcp://{host}:{port}");
        if let Ok(checked) = check(&endpoint) {
            let socket = zmq::Context::new().socket(zmq::SUB).unwrap();
            socket.set_linger(0).unwrap();
            socket.set_ipv6(true).unwrap();
            prop_assert!(socket.connect(checked.as_str()).is_ok(), "{endpoint}");
        }
    }

    #[test]
    fn no_text_hurts(text in "\\PC{0,40}") {
        for endpoint in [text.clone(), format!("tcp://{text}"), format!("ipc://{text}"), format!("tcp://[{text}")] {
            if let Ok(checked) = check(&endpoint) {
                prop_assert_eq!(checked.as_str(), endpoint.as_str());
            }
        }
    }
}
