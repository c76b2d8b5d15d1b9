//! What surrounds the content of every page: the masthead and the loading of the page's data.
//!
//! The viewer comes with each page's data rather than from a resource of its own: one request per page, and nothing suspends
//! outside the routes.

use super::{load::Loaded, problem};
use crate::{error::AppError, live::News, model::Viewer};
use leptos::prelude::*;
use serde::{Deserialize, Serialize};

/// What the masthead shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    pub viewer: Viewer,
    /// How many effects are unconfirmed, so that a person has to look into them; 0 for people who are not admins.
    pub unconfirmed: u32,
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
pub fn account_masthead(viewer: Viewer, unconfirmed: u32) -> String {
    // The count is a signal, which needs an owner also where nothing will ever change it.
    let owner = Owner::new_root(None);
    owner.with(|| view! { <Masthead here=Here::Account frame=Some(Frame { viewer, unconfirmed }) /> }.to_html())
}

/// How many effects are unconfirmed, for an update.
#[server(prefix = "/api", endpoint = "effects/unconfirmed")]
async fn count_unconfirmed() -> Result<u32, AppError> {
    crate::pages::answer::ask(async move |pages, viewer| pages.unconfirmed_effects(&viewer).await).await
}

/// How many effects wait for a person, and nothing where there are none. The count follows the record on every page.
#[component]
fn Unconfirmed(count: u32) -> impl IntoView {
    let count = RwSignal::new(count);
    if let Some(news) = use_context::<News>() {
        news.follow(move || async move {
            let read = count_unconfirmed().await?;
            let _ = count.try_set(read);
            Ok(())
        });
    }
    move || match count.get() {
        0 => None,
        some => Some(view! { <span class="count">{format!("{some} unconfirmed")}</span> }),
    }
}

/// The name of the program and the navigation.
#[component]
pub(super) fn Masthead(here: Here, frame: Option<Frame>) -> impl IntoView {
    let current = move |entry| (here == entry).then_some("page");
    let unconfirmed = frame.as_ref().map_or(0, |frame| frame.unconfirmed);
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
                                "Effects " <Unconfirmed count=unconfirmed />
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
