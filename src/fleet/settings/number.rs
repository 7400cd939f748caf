//! Numbers as Python's `int()` and `float()` read them from text: the variables of the coordinator were always read so.

/// A whole number: blanks around it, one sign, `_` between digits. Beyond 64 bits it is the nearest that fits.
pub fn whole(text: &str) -> Option<i64> {
    let plain = plain(text)?;
    let (negative, digits) = match plain.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, plain.strip_prefix('+').unwrap_or(&plain)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let far = if negative { i64::MIN } else { i64::MAX };
    Some(plain.parse().unwrap_or(far))
}

/// A floating-point number: as [`whole`], with point and exponent, or `inf`, `infinity`, `nan` in any case.
pub fn real(text: &str) -> Option<f64> {
    plain(text)?.parse().ok()
}

/// Without the blanks around it and the `_` that stand between digits; `None` where one stands elsewhere.
fn plain(text: &str) -> Option<String> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c));
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let misplaced =
        |(at, byte): (usize, &u8)| *byte == b'_' && !(digit(at.checked_sub(1)) && digit(Some(at + 1)));
    if bytes.iter().enumerate().any(misplaced) { None } else { Some(text.replace('_', "")) }
}

/// A truth value that is clearly one or the other; our own variables take nothing else.
pub fn clear_truth(text: &str) -> Option<bool> {
    let no = ["0", "false", "no", "off"].contains(&text.trim().to_lowercase().as_str());
    if no { Some(false) } else { truth(text).then_some(true) }
}

/// A truth value: `1`, `true`, `yes` and `on` in any case, blanks around them or not; anything else is false.
pub fn truth(text: &str) -> bool {
    ["1", "true", "yes", "on"].contains(&text.trim().to_lowercase().as_str())
}
