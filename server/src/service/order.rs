//! The check that makes a [`Spec`] of a [`ReportRequest`], whoever has filled it in. All mistakes are found at once, each with the
//! field that it belongs to.

use app::model::{FieldError, RecipientCheck};
use contract::Month;
use documents::{
    mcp::ServerSource,
    source::{
        allowed,
        setting::{Reads, SourceSetting},
    },
};
use domain::{
    hold::{Hold, UnknownHold},
    period::{Period, parse_zone},
    place::{Folder, Place},
    recipients::{DEFAULT_MAX_RECIPIENTS, RecipientsError, parse_recipients},
    request::ReportRequest,
    spec::{SourcePlace, SourceSpec, Spec, Task},
};
use std::path::PathBuf;

/// The longest title, in characters.
pub const MAX_TITLE: usize = 150;
/// The longest instructions, in characters.
pub const MAX_INSTRUCTIONS: usize = 4_000;

/// Whether `spec` could have been made of this request, as far as it can be told without its folders.
pub fn resembles(request: &ReportRequest, spec: &Spec) -> bool {
    spec.task == Task::Report
        && request.month.trim() == spec.month.to_string()
        && request.zone.trim() == spec.zone
        && request.title.trim() == spec.title
        && check_recipients(&request.recipients.join(",")).addresses == spec.recipients
}

/// A source that may be read, with the id that forms use.
#[derive(Debug, Clone)]
pub struct AllowedSource {
    pub id: String,
    /// What people call it.
    pub name: String,
    pub reads: Reads,
}

impl AllowedSource {
    /// The folder, if it is one.
    pub fn folder(&self) -> Option<Folder> {
        match &self.reads {
            Reads::Folder(root) => Some(Folder { name: self.name.clone(), root: root.clone() }),
            Reads::Server(_) => None,
        }
    }

    /// The MCP server, if it is one.
    pub fn server(&self) -> Option<ServerSource> {
        match &self.reads {
            Reads::Folder(_) => None,
            Reads::Server(settings) => {
                Some(ServerSource { id: self.id.clone(), name: self.name.clone(), settings: settings.as_ref().clone() })
            }
        }
    }
}

/// Gives each source an id made of its name.
pub fn with_ids(sources: Vec<SourceSetting>) -> Vec<AllowedSource> {
    let mut known: Vec<AllowedSource> = Vec::new();
    for SourceSetting { name, reads } in sources {
        let plain: String = name.to_lowercase().chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let plain = plain.trim_matches('-').to_owned();
        let taken = |id: &str| known.iter().any(|other| other.id == id);
        let plain = if plain.is_empty() { "folder" } else { &plain };
        let mut id = plain.to_owned();
        let mut n = 1;
        while taken(&id) {
            n += 1;
            id = format!("{plain}-{n}");
        }
        known.push(AllowedSource { id, name, reads });
    }
    known
}

/// Checks a request; `has_files` says whether uploaded files come with it.
pub fn check(request: &ReportRequest, has_files: bool, allowed: &[AllowedSource]) -> Result<Spec, Vec<FieldError>> {
    let mut errors = Vec::new();
    let mut wrong = |field: &str, text: String| errors.push(FieldError { field: field.to_owned(), text });

    let title = request.title.trim();
    if title.chars().any(char::is_control) {
        wrong("title", "The title contains a line break or another control character. Type it again in one line.".into());
    } else if title.chars().count() > MAX_TITLE {
        wrong("title", format!("The title is longer than {MAX_TITLE} characters. Make it shorter."));
    }
    let month: Option<Month> = match request.month.trim().parse() {
        Ok(month) => Some(month),
        Err(error) => {
            wrong("month", format!("{error}"));
            None
        }
    };
    let zone = parse_zone(request.zone.trim());
    let period = match (&zone, month) {
        (Err(error), _) => {
            wrong("zone", error.to_string());
            None
        }
        (Ok(zone), Some(month)) => Period::new(month, *zone).map_err(|error| wrong("month", error.to_string())).ok(),
        (Ok(_), None) => None,
    };
    let mut sources = Vec::new();
    for asked in &request.sources {
        match find_source(asked, allowed) {
            Ok(source) if sources.contains(&source) => {}
            Ok(source) => sources.push(source),
            Err(text) => wrong("sources", text),
        }
    }
    if request.sources.is_empty() && !has_files {
        wrong("sources", "Choose a folder or add files; a report needs documents.".into());
    }
    let check = check_recipients(&request.recipients.join(","));
    for problem in check.problems {
        wrong("recipients", problem);
    }
    let instructions = request.instructions.trim();
    if instructions.chars().count() > MAX_INSTRUCTIONS {
        wrong("instructions", format!("The instructions are longer than {MAX_INSTRUCTIONS} characters. Make them shorter."));
    }
    let hold = request.hold.parse().unwrap_or_else(|error: UnknownHold| {
        wrong("hold", error.to_string());
        Hold::None
    });
    match (period, errors.is_empty()) {
        (Some(period), true) => Ok(Spec {
            title: title.to_owned(),
            month: period.month(),
            start: period.start(),
            end: period.end(),
            zone: request.zone.trim().to_owned(),
            sources,
            recipients: check.addresses,
            instructions: (!instructions.is_empty()).then(|| instructions.to_owned()),
            hold,
            task: Task::Report,
        }),
        _ => Err(errors),
    }
}

fn find_source(asked: &str, sources: &[AllowedSource]) -> Result<SourceSpec, String> {
    if let Some(known) = sources.iter().find(|known| known.id == asked || known.name == asked) {
        let place = match known.folder() {
            Some(folder) => Place::whole(folder).into(),
            None => SourcePlace::Server { server: known.id.clone() },
        };
        return Ok(SourceSpec { id: known.id.clone(), name: known.name.clone(), place });
    }
    let all: Vec<Folder> = sources.iter().filter_map(AllowedSource::folder).collect();
    let place = allowed(&PathBuf::from(asked), &all).map_err(|error| error.to_string())?;
    let folder = &place.folder().name;
    let inside = place.inside().display().to_string();
    let name = if inside.is_empty() { folder.clone() } else { format!("{folder}/{inside}") };
    Ok(SourceSpec { id: asked.to_owned(), name, place: place.into() })
}

/// Checks recipients as typed.
pub fn check_recipients(typed: &str) -> RecipientCheck {
    match parse_recipients(typed, DEFAULT_MAX_RECIPIENTS) {
        Ok(recipients) => {
            RecipientCheck { addresses: recipients.iter().map(ToString::to_string).collect(), problems: Vec::new() }
        }
        Err(RecipientsError::Invalid(wrong)) => {
            RecipientCheck { addresses: Vec::new(), problems: wrong.iter().map(ToString::to_string).collect() }
        }
        Err(other) => RecipientCheck { addresses: Vec::new(), problems: vec![other.to_string()] },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str, root: PathBuf) -> SourceSetting {
        SourceSetting { name: name.into(), reads: Reads::Folder(root) }
    }

    fn request() -> ReportRequest {
        ReportRequest {
            month: "2026-06".into(),
            zone: "Europe/Berlin".into(),
            recipients: vec!["anna@example.org".into()],
            ..ReportRequest::default()
        }
    }

    fn fields(request: &ReportRequest) -> Vec<String> {
        check(request, true, &[]).err().unwrap_or_default().into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn a_good_order_passes() {
        let spec = check(&request(), true, &[]).unwrap();
        assert_eq!(spec.recipients, ["anna@example.org"]);
        assert_eq!(spec.full_title(), "June 2026");
    }

    #[test]
    fn every_mistake_is_named_with_its_field() {
        let wrong = ReportRequest {
            title: "Minutes\r\nBcc: everyone@example.org".into(),
            month: "2026-13".into(),
            zone: "Mars/Olympus".into(),
            sources: vec!["/etc".into()],
            recipients: vec!["anna@".into()],
            instructions: "x".repeat(MAX_INSTRUCTIONS + 1),
            hold: "soon".into(),
        };
        assert_eq!(fields(&wrong), ["title", "month", "zone", "sources", "recipients", "instructions", "hold"]);
    }

    #[test]
    fn a_month_must_be_written_in_full() {
        for month in ["2026-2", "2026-00", "", "June"] {
            assert_eq!(fields(&ReportRequest { month: month.into(), ..request() }), ["month"], "{month}");
        }
    }

    #[test]
    fn an_order_needs_documents_and_recipients() {
        let errors = check(&request(), false, &[]).unwrap_err();
        assert_eq!(errors.iter().map(|error| error.field.as_str()).collect::<Vec<_>>(), ["sources"]);
        assert_eq!(fields(&ReportRequest { recipients: vec![" ".into()], ..request() }), ["recipients"]);
        let thousand: Vec<String> = (0..1000).map(|n| format!("p{n}@example.org")).collect();
        assert_eq!(fields(&ReportRequest { recipients: vec![thousand.join(",")], ..request() }), ["recipients"]);
    }

    #[test]
    fn a_path_counts_only_inside_an_allowed_folder() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("minutes/2026");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::create_dir_all(dir.path().join("private")).unwrap();
        let folders = with_ids(vec![folder("Minutes", dir.path().join("minutes"))]);
        let with = |source: &std::path::Path| ReportRequest { sources: vec![source.display().to_string()], ..request() };
        let spec = check(&with(&inside), false, &folders).unwrap();
        assert_eq!(spec.sources[0].name, "Minutes/2026");
        let errors = check(&with(&dir.path().join("minutes/../private")), false, &folders).unwrap_err();
        assert!(errors[0].text.contains("outside the folders that the administrator allows"), "{errors:?}");
    }

    #[test]
    fn folders_of_the_same_name_get_different_ids() {
        let named = |name: &str| folder(name, "/".into());
        let ids: Vec<String> = with_ids(vec![named("Minutes"), named("minutes"), named("§")]).into_iter().map(|f| f.id).collect();
        assert_eq!(ids[..2], ["minutes", "minutes-2"]);
        assert!(!ids[2].is_empty());
    }
}
