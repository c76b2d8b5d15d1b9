//! Language models as summarizers.
//!
//! Documents are cut into numbered passages, so that the model can name its sources with short marks and code can check
//! them. What does not fit into one prompt is summarized in pieces and the notes are then put together, in as many
//! rounds as it takes: no passage is ever left out. Every call streams, because closing a stream is the only cancel
//! that model servers reliably notice. The text of documents is data: it is fenced with a mark that it cannot guess,
//! the model has no tools, and what it writes becomes plain text.

mod answer;
mod call;
mod connection;
mod events;
mod passages;
mod prompt;
mod protocol;
mod settings;

use super::figures::KnownFigures;
use super::{Draft, Identity, LONGEST_COMPUTATION, Ledger, Section, Statement, SummarizeError, Summarizer, Task, off_thread};
use answer::Line;
use async_trait::async_trait;
use call::Caller;
use connection::Connection;
use domain::clock::{SharedClock, SystemClock};
use passages::Passages;
use prompt::Prompt;
pub use settings::{ModelSettings, Provider};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Rounds of putting notes together. Each round must shorten the notes, so this is a bound on paper only.
const MAX_ROUNDS: usize = 8;

/// Summarizes with a language model.
pub struct ModelSummarizer {
    settings: ModelSettings,
    connection: Connection,
    clock: SharedClock,
    /// Makes the fences of a summary unguessable for its documents.
    secret: u128,
}

impl ModelSummarizer {
    /// Prepares the connection; nothing is sent yet. `secret` must be random and new for each summary: the fences
    /// around documents are derived from it.
    ///
    /// # Errors
    /// [`SummarizeError::Failed`] when the settings cannot work, saying which and why.
    pub fn new(settings: ModelSettings, secret: u128) -> Result<Self, SummarizeError> {
        settings.check().map_err(SummarizeError::failed)?;
        let connection = Connection::open(&settings)?;
        Ok(Self { settings, connection, clock: Arc::new(SystemClock), secret })
    }

    /// With another clock than the machine's.
    #[must_use]
    pub fn on(self, clock: SharedClock) -> Self {
        Self { clock, ..self }
    }
}

#[async_trait]
impl Summarizer for ModelSummarizer {
    fn identity(&self) -> Identity {
        Identity { name: format!("{} at {}", self.settings.model, self.connection.host()) }
    }

    fn longest(&self) -> Duration {
        (self.settings.max_timeout + call::LONGEST_BACKOFF).max(LONGEST_COMPUTATION)
    }

    async fn summarize(&self, task: &Task, ledger: &dyn Ledger, cancel: &CancellationToken) -> Result<Draft, SummarizeError> {
        let passages = Passages::of(&task.documents, self.settings.prompt_bytes() / 2);
        let mut run =
            Run { summarizer: self, task, passages: &passages, ledger, cancel, calls: 0, total: 0, remarks: Vec::new() };
        let answer = run.summary().await?;
        let mut notes = run.remarks;
        let mut draft = Draft {
            sections: sections(answer::lines(&answer, &passages, &mut notes)),
            summarizer: self.identity(),
            parameters: self.settings.shown(),
            notes,
        };
        if draft.sections.is_empty() {
            return Err(no_statement());
        }
        let documents = task.documents.clone();
        let known = off_thread(cancel, move |_| Some(KnownFigures::of(&documents))).await?;
        let statements = draft.sections.iter_mut().flat_map(|section| &mut section.statements);
        let without_source = statements.fold(0_usize, |count, statement| {
            statement.unsupported = known.unsupported(&statement.text);
            count + usize::from(statement.citations.is_empty())
        });
        if without_source > 0 {
            draft.notes.push(format!("The model gave no valid source for {without_source} of its statements; they are marked."));
        }
        Ok(draft)
    }
}

/// One summary under way.
struct Run<'a> {
    summarizer: &'a ModelSummarizer,
    task: &'a Task,
    passages: &'a Passages<'a>,
    ledger: &'a dyn Ledger,
    cancel: &'a CancellationToken,
    /// Calls answered.
    calls: u32,
    /// Calls known to be needed. Grows when notes take another round.
    total: u32,
    /// What a reader must know about how it went.
    remarks: Vec<String>,
}

impl Run<'_> {
    /// The final answer, after as many rounds of notes as it takes.
    async fn summary(&mut self) -> Result<String, SummarizeError> {
        let limit = self.summarizer.settings.prompt_bytes();
        let mut parts = self.passages.pieces(limit);
        let mut are_notes = false;
        for _ in 0..MAX_ROUNDS {
            let before: usize = parts.iter().map(String::len).sum();
            if let [only] = parts.as_slice() {
                self.total = self.calls + 1;
                return self.ask(only, are_notes, true).await;
            }
            self.total = self.calls + count(parts.len()) + 1;
            let mut notes = Vec::with_capacity(parts.len());
            for part in &parts {
                let answer = self.ask(part, are_notes, false).await?;
                let tidy = answer::tidy_notes(&answer, self.passages, &mut self.remarks);
                if tidy.is_empty() {
                    // Going on would drop this piece without a word.
                    return Err(no_statement());
                }
                notes.push(tidy);
            }
            parts = passages::pack(&notes, limit);
            are_notes = true;
            let after: usize = parts.iter().map(String::len).sum();
            if parts.len() > 1 && after >= before {
                break;
            }
        }
        Err(SummarizeError::failed(
            "The model's notes do not get shorter than the documents. Choose fewer documents, or a model with a larger context.",
        ))
    }

    async fn ask(&mut self, data: &str, is_notes: bool, is_final: bool) -> Result<String, SummarizeError> {
        let number = self.calls + 1;
        let purpose = match (is_final, is_notes) {
            (true, false) => "Summarize the documents".to_owned(),
            (true, true) => "Put the notes together".to_owned(),
            (false, false) => format!("Summarize piece {number} of {}", self.total - 1),
            (false, true) => "Shorten the notes".to_owned(),
        };
        let prompt = Prompt { task: self.task, data, is_notes, is_final, fence: self.fence(number, data) };
        self.ledger.progress(self.calls, self.total).await?;
        let caller = Caller {
            settings: &self.summarizer.settings,
            connection: &self.summarizer.connection,
            ledger: self.ledger,
            cancel: self.cancel,
            clock: &self.summarizer.clock,
        };
        let answer = caller.call(&prompt, (number, self.total), &purpose).await?;
        self.calls = number;
        self.ledger.progress(self.calls, self.total).await?;
        Ok(answer)
    }

    /// The fence of a call. Documents were written before the secret was drawn, so none can hold it; but notes may hold
    /// what a model was talked into copying, so a fence that stands in the data is changed until it does not.
    fn fence(&self, call: u32, data: &str) -> String {
        let mut fence = format!("DATA-{:032x}-{call}", self.summarizer.secret);
        while data.contains(&fence) {
            fence.push('x');
        }
        fence
    }
}

fn no_statement() -> SummarizeError {
    SummarizeError::failed("The model sent an answer without a single statement.")
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn sections(lines: Vec<Line>) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in lines {
        match line {
            Line::Heading(heading) => sections.push(Section { heading, statements: Vec::new() }),
            Line::Statement(statement) => add(&mut sections, statement),
        }
    }
    sections.retain(|section| !section.statements.is_empty());
    sections
}

fn add(sections: &mut Vec<Section>, statement: Statement) {
    match sections.last_mut() {
        Some(section) => section.statements.push(statement),
        None => sections.push(Section { heading: "Summary".to_owned(), statements: vec![statement] }),
    }
}

#[cfg(test)]
mod tests;
