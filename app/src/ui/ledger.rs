//! A table of what happened: rows of a few kinds of cells. One view for all such tables keeps the script small.

use super::{StateMark, Time};
use crate::model::Moment;
use contract::Mark;
use leptos::prelude::*;

/// What stands in a cell.
#[derive(Debug, Clone)]
pub enum Cell {
    When(Moment),
    Text(String),
    Link {
        path: String,
        text: String,
    },
    State(Mark, String),
    /// What a person or another program said, as they said it.
    Words(Option<String>),
}

fn cell(cell: Cell) -> AnyView {
    match cell {
        Cell::When(at) => view! {
            <td class="when">
                <Time at />
            </td>
        }
        .into_any(),
        Cell::Text(text) => view! { <td class="what">{text}</td> }.into_any(),
        Cell::Link { path, text } => view! {
            <td class="what">
                <a href=path>{text}</a>
            </td>
        }
        .into_any(),
        Cell::State(mark, word) => view! {
            <td>
                <span class="state">
                    <StateMark mark />
                    <span>{word}</span>
                </span>
            </td>
        }
        .into_any(),
        Cell::Words(text) => view! { <td class="proof words">{text}</td> }.into_any(),
    }
}

/// The table.
#[component]
pub fn Ledger(heads: &'static [&'static str], rows: Vec<Vec<Cell>>) -> AnyView {
    let heads = heads.iter().map(|head| view! { <th scope="col">{*head}</th> }).collect_view();
    let rows = rows.into_iter().map(|row| view! { <tr>{row.into_iter().map(cell).collect_view()}</tr> }).collect_view();
    view! {
        <table class="ledger">
            <thead>
                <tr>{heads}</tr>
            </thead>
            <tbody>{rows}</tbody>
        </table>
    }
    .into_any()
}
