//! The page that stands where another could not be shown.

use super::frame::{Frame, Here, Masthead};
use crate::error::AppError;
use leptos::prelude::*;
use leptos_meta::Title;

/// The heading for an error.
fn heading(error: &AppError) -> String {
    match error {
        AppError::SignInRequired => "Sign in to see this".into(),
        AppError::Forbidden => "Not for you to see".into(),
        AppError::NotFound => "Nothing here".into(),
        AppError::Withdrawn { title, .. } => format!("Withdrawn: {title}"),
        AppError::Invalid(_) => "That could not be read".into(),
        AppError::Unavailable(_) => "Not possible just now".into(),
        AppError::Unreachable => "The server cannot be reached".into(),
        AppError::Internal => "Something went wrong".into(),
    }
}

/// The page: what happened, and where to go from here. `frame` is the one that was shown last.
pub fn problem(error: &AppError, frame: Option<Frame>) -> AnyView {
    let title = heading(error);
    let sign_in = *error == AppError::SignInRequired;
    // A report is only refused in this way to people who are signed in and might have read it.
    let masthead = if matches!(error, AppError::Withdrawn { .. }) {
        view! { <Masthead here=Here::Jobs frame /> }.into_any()
    } else {
        view! {
            <header class="masthead">
                <a class="brand" href="/">
                    "Recount"
                </a>
            </header>
        }
        .into_any()
    };
    view! {
        <Title text=title.clone() />
        {masthead}
        <main id="content" class="narrow" tabindex="-1">
            <div class="flow">
                <h1>{title}</h1>
                {said(error)}
                <p class="row">
                    {if sign_in {
                        view! {
                            <a class="button primary" href="/sign-in">
                                "Sign in"
                            </a>
                        }
                    } else {
                        view! {
                            <a class="button" href="/jobs">
                                "Go to the jobs"
                            </a>
                        }
                    }}
                    <a class="button quiet" href="/">
                        "New report"
                    </a>
                </p>
            </div>
        </main>
    }
    .into_any()
}

/// What there is to say about it.
fn said(error: &AppError) -> AnyView {
    match error {
        AppError::Withdrawn { at, by, why, .. } => view! {
            <div class="notice">
                <p>{format!("This report was withdrawn on {at} by {by}.")}</p>
                <blockquote class="words">{why.clone()}</blockquote>
            </div>
            <p class="soft">"What it said is not shown any more. An e-mail that led you here stays where it is."</p>
        }
        .into_any(),
        _ => view! { <p>{error.to_string()}</p> }.into_any(),
    }
}
