//! Set-up: path segments, numbers and names of clients.
//! Claim: segments are decoded once, numbers and names are written as the reference writes them.

use kvatlas::fleet::form::{path_param, pins_query, python_repr, salt_of_segment, write_float};

#[test]
fn a_segment_is_decoded_once() {
    let cases = [
        ("abc", Some("abc")),
        ("a%20b+c", Some("a b+c")),
        ("a%252Fb", Some("a%2Fb")),
        ("%C3%A9", Some("é")),
        ("%ff", Some("\u{fffd}")),
        ("%zz%4", Some("%zz%4")),
        (" x ", Some(" x ")),
        ("a%40b", Some("a@b")),
        ("a%2Fb", None),
        ("a%2fb", None),
    ];
    for (raw, decoded) in cases {
        assert_eq!(path_param(raw).as_deref(), decoded, "{raw}");
    }
    assert_eq!(salt_of_segment("_default"), "");
    assert_eq!(salt_of_segment("_Default"), "_Default");
}

#[test]
fn a_number_keeps_its_fraction() {
    let cases = [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (10.0, "10.0"),
        (0.1, "0.1"),
        (9.5e-7, "9.5e-7"),
        (0.0001, "0.0001"),
        (0.000_09, "9e-5"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e16"),
        (0.099_999_999_627_470_97, "0.09999999962747097"),
        (f64::NAN, "null"),
        (f64::NEG_INFINITY, "null"),
    ];
    for (number, text) in cases {
        let mut out = Vec::new();
        write_float(&mut out, number);
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}

#[test]
fn a_name_is_quoted_as_python_does() {
    let cases = [
        ("x", "'x'"),
        ("", "''"),
        ("it's", "\"it's\""),
        ("\"", "'\"'"),
        ("'\"", "'\\'\"'"),
        ("a\\b", "'a\\\\b'"),
        ("\n\r\t\0\x1f\x7f", "'\\n\\r\\t\\x00\\x1f\\x7f'"),
        ("é😀\u{301}", "'é😀\u{301}'"),
        ("\u{a0}\u{ad}\u{200b}\u{3000}\u{e000}\u{10ffff}", "'\\xa0\\xad\\u200b\\u3000\\ue000\\U0010ffff'"),
    ];
    for (text, quoted) in cases {
        assert_eq!(python_repr(text), quoted);
    }
}

#[test]
fn a_page_of_pins_has_a_size() {
    let page = pins_query(None).unwrap();
    assert_eq!((page.cache_salt, page.model_name, page.offset, page.limit), (None, None, 0, 1000));
    let page = pins_query(Some("cache_salt=&model_name=a%2Fb+c&offset=5&limit=%207%20&x=1")).unwrap();
    assert_eq!((page.cache_salt.as_deref(), page.model_name.as_deref()), (Some(""), Some("a/b c")));
    assert_eq!((page.offset, page.limit), (5, 7));
    assert_eq!(pins_query(Some("offset=18446744073709551616")).unwrap_err().status(), 422);
}
