//! Header fields (RFC 5322 2.2), as they stand in a message's header section and in the parts of a delivery report.

use std::borrow::Cow;

/// Name and unfolded value of every field, up to the first empty line. Lines that are none are left out.
pub(super) fn of(bytes: &[u8]) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in String::from_utf8_lossy(bytes).lines() {
        if line.is_empty() {
            break;
        }
        match line.split_once(':') {
            _ if line.starts_with([' ', '\t']) => {
                // RFC 5322 2.2.3: only the line break goes away
                if let Some((_, value)) = fields.last_mut() {
                    value.push_str(line);
                }
            }
            Some((name, value)) => fields.push((name.trim_end().to_owned(), value.to_owned())),
            None => {}
        }
    }
    for (_, value) in &mut fields {
        *value = value.trim().to_owned();
    }
    fields
}

/// The value of the field with that name, if there is exactly one: of two, nobody could say which counts.
pub(super) fn only<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut found = fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
    match (found.next(), found.next()) {
        (Some((_, value)), None) => Some(value),
        _ => None,
    }
}

/// The groups of fields of a delivery report, which empty lines stand between (RFC 3464 2.1).
pub(super) fn groups(bytes: &[u8]) -> Vec<Vec<(String, String)>> {
    let text: Cow<'_, str> = String::from_utf8_lossy(bytes);
    let mut groups = Vec::new();
    let mut group = String::new();
    for line in text.lines().chain([""]) {
        if !line.trim().is_empty() {
            group.push_str(line);
            group.push('\n');
        } else if !group.is_empty() {
            groups.push(of(std::mem::take(&mut group).as_bytes()));
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folded_lines_are_one_value_and_the_text_is_not_read() {
        let fields = of(b"A: 1\r\nMessage-ID:\r\n <a@b>\r\nbroken\r\nC:  x\r\n\ty \r\n\r\nMessage-ID: <c@d>\r\n");
        let expected = [("A", "1"), ("Message-ID", "<a@b>"), ("C", "x\ty")];
        assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(only(&fields, "message-id"), Some("<a@b>"));
    }

    #[test]
    fn of_two_fields_with_one_name_none_counts() {
        let fields = of(b"Message-ID: <a@b>\nMESSAGE-ID: <a@b>\n");
        assert_eq!(only(&fields, "Message-ID"), None);
        assert_eq!(only(&fields, "Date"), None);
    }

    #[test]
    fn groups_end_at_empty_lines() {
        let groups = groups(b"\r\n\r\nA: 1\r\nB: 2\r\n\r\n\r\nC: 3\r\n \r\nD: 4");
        let names: Vec<Vec<_>> = groups.iter().map(|g| g.iter().map(|(name, _)| name.as_str()).collect()).collect();
        assert_eq!(names, [vec!["A", "B"], vec!["C"], vec!["D"]]);
    }

    #[test]
    fn bytes_that_are_no_text_do_no_harm() {
        let noise: Vec<u8> = (0..=255).cycle().take(5000).collect();
        assert_eq!(only(&of(&noise), "Message-ID"), None);
        let _ = groups(&noise);
    }
}
