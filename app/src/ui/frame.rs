//! What surrounds the content of every page: the masthead and the loading of the page's data.
//!
//! The viewer comes with each page's data rather than from a resource of its own: one request per page, and nothing suspends
//! outside the routes.

use super::{load::Loaded, problem};
use crate::model::Viewer;
use leptos::prelude::*;
use serde::{Deserialize, Serialize};

/// What the masthead shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    pub viewer: Viewer,
    /// Effects that are unconfirmed or in flight; 0 for people who are not admins.
    pub open_effects: u32,
}

/// A page's content with its frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Framed<T> {
    pub frame: Frame,
    pub content: T,
}

/// The frame that was shown last; it stands while the next page is on its way.
#[derive(Clone, Copy)]
struct LastFrame(RwSignal<Option<Frame>>);

/// Gives the pages a place to leave their frame.
pub fn provide_frame() {
    provide_context(LastFrame(RwSignal::new(None)));
}

/// The entry of the navigation that the page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Here {
    NewReport,
    Jobs,
    Effects,
    Account,
}

/// A page: its frame, and its content once that has arrived.
///
/// Views are erased here: their full types are too deep for the compiler.
pub fn page<T, V>(here: Here, data: Loaded<Framed<T>>, content: impl Fn(T) -> V + Clone + Send + Sync + 'static) -> AnyView
where
    T: Clone + Send + Sync + 'static,
    V: IntoView + 'static,
{
    let last = expect_context::<LastFrame>().0;
    let waiting = move || {
        view! {
            <Masthead here frame=last.get_untracked() />
            <main id="content" aria-busy="true"></main>
        }
    };
    view! {
        <Transition fallback=waiting>
            {move || {
                let content = content.clone();
                Suspend::new(async move {
                    match data.await {
                        Ok(Framed { frame, content: found }) => {
                            let shown = frame.clone();
                            Effect::new(move |_| last.set(Some(shown.clone())));
                            view! {
                                <Masthead here frame=Some(frame) />
                                <main id="content" tabindex="-1">
                                    {content(found).into_any()}
                                </main>
                            }
                                .into_any()
                        }
                        Err(error) => problem(&error, last.get_untracked()),
                    }
                })
            }}
        </Transition>
    }
    .into_any()
}

/// The masthead of the account's pages as HTML, for those among them that only the server makes.
#[cfg(feature = "ssr")]
pub fn account_masthead(viewer: Viewer, open_effects: u32) -> String {
    view! { <Masthead here=Here::Account frame=Some(Frame { viewer, open_effects }) /> }.to_html()
}

/// The name of the program and the navigation.
#[component]
pub(super) fn Masthead(here: Here, frame: Option<Frame>) -> impl IntoView {
    let current = move |entry| (here == entry).then_some("page");
    let open = frame.as_ref().map_or(0, |frame| frame.open_effects);
    let is_admin = frame.is_some_and(|frame| frame.viewer.is_admin);
    view! {
        <header class="masthead">
            <a class="brand" href="/">
                "Recount"
            </a>
            <nav aria-label="Main">
                <a href="/" aria-current=current(Here::NewReport)>
                    "New report"
                </a>
                <a href="/jobs" aria-current=current(Here::Jobs)>
                    "Jobs"
                </a>
                {is_admin
                    .then(|| {
                        view! {
                            <a href="/admin/effects" aria-current=current(Here::Effects)>
                                "Effects "
                                {(open > 0).then(|| view! { <span class="count">{format!("{open} open")}</span> })}
                            </a>
                        }
                    })}
                <a href="/account" aria-current=current(Here::Account)>
                    "Account"
                </a>
            </nav>
        </header>
    }
}
