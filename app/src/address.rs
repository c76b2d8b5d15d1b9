//! Addresses with a query. They are put together here and nowhere else, so that no value can break out of its place.

use std::fmt::Write;

/// A path with those values as its query that are not empty.
pub fn with_query<'a>(path: &str, values: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut address = path.to_owned();
    let mut separator = '?';
    for (name, value) in values.into_iter().filter(|(_, value)| !value.is_empty()) {
        // Writing into a string cannot fail.
        let _ = write!(address, "{separator}{name}={}", encoded(value));
        separator = '&';
    }
    address
}

/// Percent-encodes a value of a query (RFC 3986, section 2.1).
fn encoded(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing into a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_values_are_left_out() {
        assert_eq!(with_query("/jobs", [("state", ""), ("before", "")]), "/jobs");
        assert_eq!(with_query("/jobs", [("state", ""), ("before", "7")]), "/jobs?before=7");
        assert_eq!(with_query("/jobs", [("state", "failed"), ("before", "7")]), "/jobs?state=failed&before=7");
    }

    #[test]
    fn no_value_breaks_out_of_its_place() {
        let address = with_query("/a", [("x", "1&y=2#z"), ("y", "<ä+b@c> 100%")]);
        assert_eq!(address, "/a?x=1%26y%3D2%23z&y=%3C%C3%A4%2Bb%40c%3E%20100%25");
    }
}
