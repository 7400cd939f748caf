//! Set-up: addresses as users write them, and the file that tells which were bound.
//! Claim: host and port or a Unix path is taken, everything else is refused with the remedy; the file is whole
//! whenever it is there.

use kvatlas::config::{Listen, write_port_file};

#[test]
fn addresses_are_taken_as_written() {
    for text in
        ["127.0.0.1:13333", "0.0.0.0:0", "[::1]:80", "[::]:13333", "localhost:65535", "unix:/run/k.sock"]
    {
        assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
    }
    assert_eq!("unix:///run/k.sock".parse(), Ok(Listen::Unix("/run/k.sock".into())));
    assert_eq!("tcp://h:1".parse(), Ok(Listen::Tcp("h:1".into())));
}

#[test]
fn what_cannot_be_served_is_refused() {
    for text in ["", "localhost", "h:", "h:65536", "h:-1", ":80", "unix:", "::1:80", "fe80::1:80", "h:80/"] {
        let error = text.parse::<Listen>().unwrap_err();
        assert!(!error.to_string().is_empty(), "{text}");
    }
}

#[test]
fn the_port_file_has_one_address_a_line_and_nothing_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ports");
    std::fs::write(&path, "old").unwrap();
    write_port_file(&path, &[Listen::Tcp("127.0.0.1:4711".into()), Listen::Unix("/run/k.sock".into())])
        .unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "127.0.0.1:4711\nunix:/run/k.sock\n");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(write_port_file(&folder.path().join("no/such/folder"), &[]).is_err());
}
