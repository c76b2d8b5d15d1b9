//! The other pages: lists, the report, the account.

use super::{Fact, Moment};
use contract::Mark;
use contract::may_replace;
use serde::{Deserialize, Serialize};

/// The person who looks at the page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Viewer {
    pub id: String,
    pub email: String,
    pub is_admin: bool,
    /// IANA name.
    pub zone: String,
    /// The id of the browser's session; programs have none.
    pub session: Option<String>,
}

/// The jobs that the viewer may see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobsView {
    pub jobs: Vec<JobRow>,
    /// The address of the next page of older jobs.
    pub older_path: Option<String>,
    /// Whether jobs of other people are among them.
    pub of_everyone: bool,
    /// When the list was read; the page says it while it does not follow the record.
    pub as_of: Moment,
}

impl JobsView {
    /// Takes over a list that was read again. No row gives way to an older version of itself.
    pub fn take_over(&mut self, mut read: Self) {
        for row in &mut read.jobs {
            if let Some(shown) = self.jobs.iter().find(|shown| shown.id == row.id)
                && !may_replace(row.version, shown.version)
            {
                row.clone_from(shown);
            }
        }
        *self = read;
    }
}

/// One job in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRow {
    pub id: String,
    /// Grows with every change of the record.
    pub version: i64,
    pub title: String,
    pub mark: Mark,
    pub headline: String,
    /// It waits for a person, in a restored copy.
    pub set_aside: bool,
    pub created: Moment,
    /// Whose it is, in a list of everybody's jobs.
    pub owner: Option<String>,
    pub may_cancel: bool,
    pub report_path: Option<String>,
}

/// A saved report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportView {
    pub id: String,
    pub title: String,
    pub interval: String,
    pub created: Moment,
    /// Sanitized when it was saved; it never changes.
    pub html: String,
    pub markdown_path: String,
    /// The job's page, for those who may see it.
    pub job_path: Option<String>,
    pub facts: Vec<Fact>,
}

/// One document of a report with the cited passage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentView {
    pub report_title: String,
    pub report_path: String,
    pub number: u32,
    pub name: String,
    pub facts: Vec<Fact>,
    /// The text before, in and after the passage; the passage is empty where none was asked for.
    pub before: String,
    pub passage: String,
    pub after: String,
}

/// The sign-in page, which makes the first admin where nobody exists yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInView {
    /// No user exists: the page asks for the code from the terminal and makes the first admin.
    pub first_admin: bool,
}

/// The viewer's own account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountView {
    pub email: String,
    pub role: String,
    pub zone: String,
    pub sessions: Vec<SessionLine>,
    pub tokens: Vec<TokenLine>,
}

/// A device that is signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionLine {
    pub id: String,
    pub device: String,
    pub seen: Moment,
    pub is_this: bool,
}

/// An API token; its secret is shown once, when it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenLine {
    pub id: String,
    pub name: String,
    /// What it may do, where that is not everything.
    pub limit: Option<String>,
    pub created: Moment,
    pub used: Option<Moment>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(versions: &[(&str, i64)]) -> JobsView {
        let moment = || Moment { iso: String::new(), text: String::new() };
        let row = |&(id, version): &(&str, i64)| JobRow {
            id: id.into(),
            version,
            title: "June 2026".into(),
            mark: Mark::Running,
            headline: format!("version {version}"),
            set_aside: false,
            created: moment(),
            owner: None,
            may_cancel: true,
            report_path: None,
        };
        JobsView { jobs: versions.iter().map(row).collect(), older_path: None, of_everyone: false, as_of: moment() }
    }

    #[test]
    fn invariant_09_a_list_keeps_the_newer_row() {
        let mut shown = list(&[("b", 5), ("a", 7)]);
        shown.take_over(list(&[("c", 1), ("b", 6), ("a", 6)]));
        assert_eq!(shown, list(&[("c", 1), ("b", 6), ("a", 7)]));
        // What is not there any more goes.
        shown.take_over(list(&[("a", 8)]));
        assert_eq!(shown, list(&[("a", 8)]));
    }
}
