//! The core properties of an Office Open XML file (`docProps/core.xml`, ECMA-376 part 2): title and dates.

use super::archive::{Archive, Flow, Xml};
use super::date::{self, DateRule};
use super::draft::Draft;

/// Takes title and date from the properties. A file without them, or with broken ones, is still a good file.
pub(super) fn read(archive: &mut Archive<'_>, draft: &mut Draft) {
    let mut field = String::new();
    let mut value = String::new();
    let mut title = None;
    let mut created = None;
    let mut modified = None;
    let outcome = archive.read_xml("docProps/core.xml", |event| {
        match event {
            Xml::Start(element) => {
                element.local_name().as_ref().clone_into(&mut field);
                value.clear();
            }
            Xml::Text(text) => value.push_str(text),
            Xml::End(name) if name == field => match name {
                "title" => title = Some(std::mem::take(&mut value)),
                "created" => created = date::parse(&value),
                "modified" => modified = date::parse(&value),
                _ => {}
            },
            Xml::End(_) => {}
        }
        Flow::Continue
    });
    if outcome.is_ok() {
        draft.set_title(title.as_deref().unwrap_or_default());
        draft.set_date(created.or(modified), DateRule::Metadata);
    }
}
