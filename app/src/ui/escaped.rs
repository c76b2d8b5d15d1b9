//! Two places take text as markup: Leptos writes the children of a `<textarea>` and the document's `<title>` into the page as
//! they are. What somebody typed must be escaped there, or it could end the element and go on as markup.

/// Text as HTML, for an element whose content is text only.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// What the browser's tab says: escaped where it becomes markup. The browser's `document.title` takes text.
pub fn tab_title(page: &str) -> String {
    let title = if page.is_empty() { "Recount".to_owned() } else { format!("{page} · Recount") };
    if cfg!(feature = "ssr") { escaped(&title) } else { title }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_text_cannot_become_markup() {
        assert_eq!(escaped("</title><b>R&amp;D</b>"), "&lt;/title>&lt;b>R&amp;amp;D&lt;/b>");
        assert_eq!(escaped("Minutes, June 2026"), "Minutes, June 2026");
    }
}
