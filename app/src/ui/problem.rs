//! The page that stands where another could not be shown.

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
        AppError::Unreachable => "The server cannot be reached".into(),
        AppError::Internal => "Something went wrong".into(),
    }
}

/// The page: what happened, and where to go from here.
pub fn problem(error: &AppError) -> AnyView {
    let title = heading(error);
    let sign_in = *error == AppError::SignInRequired;
    view! {
        <Title text=title.clone() />
        <header class="masthead">
            <a class="brand" href="/">
                "Recount"
            </a>
        </header>
        <main id="content" class="narrow" tabindex="-1">
            <div class="flow">
                <h1>{title}</h1>
                <p>{error.to_string()}</p>
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
