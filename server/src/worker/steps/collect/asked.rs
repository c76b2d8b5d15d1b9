//! Documents from MCP servers. First each server's resources are listed; then what is wanted is asked for, one thing after the
//! other, and every document and every question without an answer gets its line.

use super::{Budget, Found, ended_abnormally, examine, line, took_too_long};
use crate::worker::{
    mcp_calls::Conversation,
    run::{StepError, Work},
};
use documents::{
    mcp::{Fault, Fill, Given, Part, ServerSource, ToolCall, contents, described, parts},
    read::too_large,
    source::dating::{Quick, quick_date},
};
use domain::{
    coverage::{Coverage, DocumentOutcome},
    period::Period,
    spec::{SourcePlace, SourceSpec},
};
use rmcp::model::Resource;
use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};
use store::CollectedDocument;

/// What the coverage list calls a line about a server as a whole.
const SERVER: &str = "(the server)";
/// The most pages of a list, and the most resources of a source. A list without an end must not keep a job for ever.
const MAX_PAGES: usize = 1_000;
const MAX_RESOURCES: usize = 20_000;
/// The most resources that one answer may lead to.
const MAX_LINKS: usize = 1_000;

/// Something to ask a server for.
enum Wish {
    Resource(Box<Resource>),
    Call(ToolCall),
}

/// One server and what is wanted of it.
pub struct Asking<'a> {
    conversation: Conversation<'a>,
    wishes: VecDeque<Wish>,
    fill: Fill,
}

/// Begins with every server of the job: lists its resources. Adds a line for each that cannot be asked.
pub async fn begin<'a>(
    work: &'a Work,
    period: &Period,
    askings: &mut Vec<Asking<'a>>,
    lines: &mut Vec<CollectedDocument>,
) -> Result<(), StepError> {
    let fill = Fill::new(period).ok_or_else(|| StepError::Failed("The month is too far away for a report.".into()))?;
    for SourceSpec { name, place, .. } in &work.claim.spec.sources {
        let SourcePlace::Server { server } = place else { continue };
        let Some(server) = work.dependencies.servers.get(server) else {
            let why = "it is no longer in the settings of the process that made this report";
            lines.push(line(name, SERVER, Coverage::because(DocumentOutcome::Unreadable, why)));
            continue;
        };
        let conversation = Conversation::new(work, Arc::new(ServerSource { name: name.clone(), ..server.as_ref().clone() }));
        askings.push(Asking { conversation, wishes: VecDeque::new(), fill });
        if let Some(asking) = askings.last_mut() {
            asking.list(period, lines).await?;
        }
    }
    Ok(())
}

impl Asking<'_> {
    /// How many things are still to be asked for.
    pub fn left(&self) -> usize {
        self.wishes.len()
    }

    /// Ends the conversation, in whatever state it is.
    pub async fn end(self) {
        self.conversation.end().await;
    }

    fn name(&self) -> String {
        self.conversation.source().name.clone()
    }

    async fn list(&mut self, period: &Period, lines: &mut Vec<CollectedDocument>) -> Result<(), StepError> {
        let wanted = self.conversation.source().settings.wanted.clone();
        if wanted.resources.is_some() {
            let (resources, trouble) = self.resources().await?;
            if let Some(why) = trouble {
                let outcome = if resources.is_empty() { DocumentOutcome::Unreadable } else { DocumentOutcome::ReadInPart };
                lines.push(line(&self.name(), "(the list of resources)", Coverage::because(outcome, why)));
            }
            let by_month = wanted.resources_name_month();
            for resource in resources {
                match self.elsewhere(&resource, by_month, period) {
                    Some(skipped) => lines.push(skipped),
                    None => self.wishes.push_back(Wish::Resource(Box::new(resource))),
                }
            }
        }
        self.wishes.extend(wanted.calls.into_iter().map(Wish::Call));
        Ok(())
    }

    /// The resources that are meant, and why the list may not be whole.
    async fn resources(&mut self) -> Result<(Vec<Resource>, Option<String>), StepError> {
        let wanted = self.conversation.source().settings.wanted.clone();
        let (mut resources, mut uris, mut cursors, mut cursor) = (Vec::new(), HashSet::new(), HashSet::new(), None);
        loop {
            let page = match self.conversation.list(cursor.take()).await? {
                Ok(page) => page,
                Err(fault) => return Ok((resources, Some(fault.to_string()))),
            };
            for resource in page.resources {
                if resources.len() < MAX_RESOURCES && wanted.means(&self.fill, &resource.uri) && uris.insert(resource.uri.clone())
                {
                    resources.push(resource);
                }
            }
            let Some(next) = page.next_cursor else { return Ok((resources, None)) };
            if !cursors.insert(next.clone()) {
                return Ok((resources, Some("its list does not end: it leads back to a page that was read".into())));
            }
            if cursors.len() >= MAX_PAGES || resources.len() >= MAX_RESOURCES {
                let count = resources.len();
                return Ok((resources, Some(format!("its list goes on after {count} resources"))));
            }
            cursor = Some(next);
        }
    }

    /// The line of a resource that need not be read, since its name tells that it is of another month.
    fn elsewhere(&self, resource: &Resource, by_month: bool, period: &Period) -> Option<CollectedDocument> {
        let Given { name, title, modified, .. } = described(resource);
        match quick_date(&name, modified) {
            Quick::Decided(Some(dated)) if !by_month && !dated.when.is_in(period) => {
                let other = line(&self.name(), &name, DocumentOutcome::OtherMonth.into());
                Some(super::dated_line(CollectedDocument { title, ..other }, &dated, period))
            }
            _ => None,
        }
    }

    /// Asks for the next thing and reads what comes.
    pub async fn next(&mut self, work: &Work, period: &Period, budget: &mut Budget) -> Result<Vec<CollectedDocument>, StepError> {
        let Some(wish) = self.wishes.pop_front() else { return Ok(Vec::new()) };
        let (given, by_month) = match wish {
            Wish::Resource(resource) => {
                let by_month = self.conversation.source().settings.wanted.resources_name_month();
                (self.read(&resource, work).await?, by_month)
            }
            // The settings were refused if a placeholder were unknown.
            Wish::Call(call) => (self.call(&call, work).await?, call.names_month().unwrap_or_default()),
        };
        let mut documents = Vec::with_capacity(given.len());
        for given in given {
            work.check()?;
            let mut document = match given {
                Ok(given) => look_through(work, &self.name(), given, by_month, period).await?,
                Err(unanswered) => unanswered,
            };
            budget.apply(&mut document);
            documents.push(document);
        }
        Ok(documents)
    }

    async fn read(&mut self, resource: &Resource, work: &Work) -> Result<Vec<Result<Given, CollectedDocument>>, StepError> {
        let name = described(resource).name;
        let max = work.dependencies.limits.max_bytes;
        if let Some(size) = resource.size.filter(|size| *size > max) {
            let coverage = Coverage::because(DocumentOutcome::TooLarge, too_large(size, max));
            return Ok(vec![Err(line(&self.name(), &name, coverage))]);
        }
        Ok(match self.conversation.read(&resource.uri).await? {
            Ok(read) if read.contents.is_empty() => {
                vec![Err(line(
                    &self.name(),
                    &name,
                    Coverage::because(DocumentOutcome::NoText, "the server gave no content for it"),
                ))]
            }
            Ok(read) => contents(resource, read.contents).into_iter().map(Ok).collect(),
            Err(fault) => vec![Err(self.unanswered(&name, &fault))],
        })
    }

    async fn call(&mut self, call: &ToolCall, work: &Work) -> Result<Vec<Result<Given, CollectedDocument>>, StepError> {
        let result = match self.conversation.call_tool(call, call.filled(&self.fill)).await? {
            Ok(result) => result,
            Err(fault) => return Ok(vec![Err(self.unanswered(&call.tool, &fault))]),
        };
        let is_error = result.is_error == Some(true);
        let parts = parts(&call.tool, result);
        if is_error {
            let said = parts.into_iter().find_map(|part| match part {
                Part::Document(Given { bytes: Ok(bytes), .. }) => Some(Fault::said(&String::from_utf8_lossy(&bytes))),
                Part::Document(_) | Part::Link(_) => None,
            });
            let why = format!("the tool says: {}", said.as_deref().unwrap_or("an error, without a word about it"));
            return Ok(vec![Err(line(&self.name(), &call.tool, Coverage::because(DocumentOutcome::Unreadable, why)))]);
        }
        if parts.is_empty() {
            let nothing = Coverage::because(DocumentOutcome::NoText, "the tool gave nothing");
            return Ok(vec![Err(line(&self.name(), &call.tool, nothing))]);
        }
        let (mut given, mut links) = (Vec::new(), 0);
        for part in parts {
            match part {
                Part::Document(document) => given.push(Ok(document)),
                Part::Link(_) if links == MAX_LINKS => {
                    let why = format!("it leads to more than {MAX_LINKS} resources; the rest was not read");
                    given.push(Err(line(&self.name(), &call.tool, Coverage::because(DocumentOutcome::ReadInPart, why))));
                    links += 1;
                }
                Part::Link(_) if links > MAX_LINKS => {}
                Part::Link(link) => {
                    links += 1;
                    given.extend(self.read(&link, work).await?);
                }
            }
        }
        Ok(given)
    }

    fn unanswered(&self, name: &str, fault: &Fault) -> CollectedDocument {
        let outcome = if *fault == Fault::TooLarge { DocumentOutcome::TooLarge } else { DocumentOutcome::Unreadable };
        line(&self.name(), name, Coverage::because(outcome, fault.to_string()))
    }
}

/// Reads a document that a server gave, like an uploaded file.
async fn look_through(
    work: &Work,
    source: &str,
    given: Given,
    by_month: bool,
    period: &Period,
) -> Result<CollectedDocument, StepError> {
    let Given { name, title, modified, bytes } = given;
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(why) => return Ok(line(source, &name, Coverage::because(DocumentOutcome::Unreadable, why))),
    };
    let (limits, period, source_name, document_name) = (work.dependencies.limits, *period, source.to_owned(), name.clone());
    let reading = move || {
        let found = Found { source: &source_name, name: &document_name, by_hand: None, modified, asked_for_month: by_month };
        examine(&found, &bytes, &period, &limits)
    };
    match work.on_thread(&format!("reading of {name}"), limits.max_time, reading).await? {
        Some(read) => {
            let document = read.map_err(|error| ended_abnormally(&error))?;
            Ok(CollectedDocument { title: document.title.or(title), ..document })
        }
        None => {
            Ok(line(source, &name, Coverage::because(DocumentOutcome::Unreadable, took_too_long("reading", limits.max_time))))
        }
    }
}
