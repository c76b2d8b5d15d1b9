use super::*;
use crate::MemoryLedger;

fn source(number: u32, name: &str, text: &str) -> SourceText {
    SourceText { number, name: name.to_owned(), date: "2026-06-10".to_owned(), text: text.to_owned() }
}

fn task(documents: Vec<SourceText>) -> Task {
    Task { title: "June 2026".to_owned(), instructions: None, documents }
}

const MINUTES: &str = "# Council meeting\n\nHello and welcome to another meeting of the council of the town!\n\n\
    ## Budget\n\nThe council approved a budget of [140,000 dollars](https://x.test/b) for the *travel* of its members. \
    Mara noted that the travel budget of the council was smaller in the year before.\n\n\
    ## Library\n\n* The library will stay open until ten in the evening from the first of July.\n\
    * [Link](https://x.test) | [Other](https://y.test) | more\n\n| a | b |\n|---|---|\n| The table is not a sentence of the council. | x |\n";
const SECOND: &str = "# Works\n\nHello and welcome to another meeting of the council of the town!\n\nThe bridge over the river was closed \
    for repairs after the engineers had found cracks in it. The repairs of the bridge are to be finished by the end of August.\n";

async fn draft(documents: Vec<SourceText>) -> Result<Draft, SummarizeError> {
    ExtractiveSummarizer.summarize(&task(documents), &MemoryLedger::default(), &CancellationToken::new()).await
}

#[tokio::test]
async fn every_statement_is_a_sentence_of_its_source() {
    let documents = vec![source(1, "a.md", MINUTES), source(2, "b.md", SECOND)];
    let draft = draft(documents.clone()).await.expect("it summarizes");
    assert_eq!(draft.sections.iter().map(|s| s.heading.as_str()).collect::<Vec<_>>(), ["In short", "Council meeting", "Works"]);
    let statements: Vec<&Statement> = draft.sections.iter().flat_map(|section| &section.statements).collect();
    for statement in &statements {
        let [citation] = statement.citations.as_slice() else { panic!("one citation each") };
        let text = &documents[citation.document as usize - 1].text;
        assert_eq!(&text[citation.start..citation.end], citation.quote);
        assert!(!statement.text.contains("welcome") && !statement.text.contains("table"), "{}", statement.text);
    }
    let budget = statements.iter().find(|s| s.text.contains("140,000")).expect("the decision is there");
    assert_eq!(budget.text, "The council approved a budget of 140,000 dollars for the travel of its members.");
    assert!(budget.citations[0].quote.contains("[140,000 dollars](https://x.test/b)"));
}

#[tokio::test]
async fn the_same_documents_give_the_same_draft() {
    let documents = || vec![source(1, "a.md", MINUTES), source(2, "b.md", SECOND)];
    assert_eq!(draft(documents()).await, draft(documents()).await);
}

#[tokio::test]
async fn a_copy_is_not_hidden_and_an_empty_document_is_named() {
    let draft = draft(vec![source(1, "a.md", MINUTES), source(2, "copy.md", MINUTES), source(3, "list.csv", "a;b\n1;2\n")])
        .await
        .expect("it summarizes");
    let headings: Vec<&str> = draft.sections.iter().map(|s| s.heading.as_str()).collect();
    assert_eq!(headings, ["In short", "Council meeting (a.md)", "Council meeting (copy.md)"]);
    assert_eq!(draft.notes, ["“list.csv” holds no full sentences, so nothing was picked from it."]);
}

#[tokio::test]
async fn nothing_to_pick_is_a_failure_with_its_reason() {
    let error = draft(vec![source(1, "a.csv", "a;b;c\n1;2;3\n")]).await.expect_err("there is no sentence");
    assert!(error.to_string().starts_with("The documents hold no full sentences"));
}

#[tokio::test]
async fn a_cancel_stops_it_and_progress_grows() {
    let ledger = MemoryLedger::default();
    let cancel = CancellationToken::new();
    let task = task(vec![source(1, "a.md", MINUTES), source(2, "b.md", SECOND)]);
    ExtractiveSummarizer.summarize(&task, &ledger, &cancel).await.expect("it summarizes");
    assert_eq!(ledger.reported_progress(), [(0, 2), (1, 2), (2, 2)]);
    cancel.cancel();
    assert_eq!(ExtractiveSummarizer.summarize(&task, &ledger, &cancel).await, Err(SummarizeError::Stopped));
}
