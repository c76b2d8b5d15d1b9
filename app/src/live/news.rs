//! Which of the jobs that the person may see have changed: one stream for the whole screen, shared by all of its parts that show
//! a list or a count. Each part reads its own data again, one read at a time, so that none can overtake another.

use super::{Line, Told};
use crate::{
    error::AppError,
    model::{JobsView, Moment},
    ui::Time,
};
use contract::is_news;
use leptos::{prelude::*, task::spawn_local};
use serde::Deserialize;
use std::{pin::Pin, sync::Arc, time::Duration};

/// The shortest time between two reads of the same part, however much happens.
const PAUSE: Duration = Duration::from_millis(500);

/// A job's record has this version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Change {
    pub id: String,
    pub version: i64,
}

/// The list of jobs that a part of the screen shows, if it shows one.
type Shown = Option<RwSignal<JobsView>>;

/// The stream. It is open while some part of the screen follows it.
#[derive(Clone, Copy)]
pub struct News {
    line: Line,
    /// It has been open, so that what the screen says is followed.
    heard: RwSignal<bool>,
    /// What was told last; nothing in particular where anything may have changed.
    latest: RwSignal<Vec<Change>>,
    followers: StoredValue<u32>,
}

/// Lets the parts of every page follow the news.
pub fn provide_news() {
    provide_context(News {
        line: Line::new("jobs"),
        heard: RwSignal::new(false),
        latest: RwSignal::new(Vec::new()),
        followers: StoredValue::new(0),
    });
}

/// How a part of the screen reads its data again. Boxed, so that all parts share one code.
type Read = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), AppError>>>> + Send + Sync>;

/// A part of the screen, and its reads.
#[derive(Clone, Copy)]
struct Part {
    read: StoredValue<Read>,
    under_way: StoredValue<bool>,
    /// Something was told after the read under way had begun.
    again: StoredValue<bool>,
}

impl News {
    /// Reads again when the connection stands, and then whenever something is told that the list `shown` does not show already, for
    /// as long as this part of the screen stands. An error of `read` says that nobody knows what the screen is worth.
    fn follow_beside<F>(self, shown: Shown, read: impl Fn() -> F + Send + Sync + 'static)
    where
        F: Future<Output = Result<(), AppError>> + 'static,
    {
        let read: Read = Arc::new(move || Box::pin(read()));
        let part = Part { read: StoredValue::new(read), under_way: StoredValue::new(false), again: StoredValue::new(false) };
        self.keep_up(part, shown);
    }

    /// The same for anything else than a list of jobs.
    pub fn follow<F>(self, read: impl Fn() -> F + Send + Sync + 'static)
    where
        F: Future<Output = Result<(), AppError>> + 'static,
    {
        self.follow_beside(None, read);
    }

    fn keep_up(self, part: Part, shown: Shown) {
        Effect::new(move |_| {
            self.join();
            // What was told between the reading of what is shown and this moment was told to nobody.
            if self.heard.get_untracked() {
                self.read(part);
            }
            Line::on_waking(move || {
                self.line.wake();
                self.read(part);
            });
            on_cleanup(move || self.leave());
        });
        Effect::new(move |before: Option<()>| {
            let concerned = self.latest.with(|latest| latest.is_empty() || is_news_to(latest, shown));
            // The first time nothing has been told yet.
            if before.is_some() && concerned {
                self.read(part);
            }
        });
    }

    /// The same for a list of jobs, where no row gives way to an older version of itself.
    pub fn follow_jobs<F>(self, list: RwSignal<JobsView>, read: impl Fn() -> F + Send + Sync + 'static)
    where
        F: Future<Output = Result<JobsView, AppError>> + 'static,
    {
        self.follow_beside(Some(list), move || {
            let reading = read();
            async move {
                let read = reading.await?;
                let _ = list.try_update(|list| list.take_over(read));
                Ok(())
            }
        });
    }

    fn join(self) {
        let first = self.followers.try_update_value(|followers| {
            *followers += 1;
            *followers == 1
        });
        if first == Some(true) {
            self.line.open("/jobs/news".to_owned(), move |told| {
                let told = match told {
                    Told::Opened => {
                        let _ = self.heard.try_set(true);
                        Vec::new()
                    }
                    Told::Event(data) => serde_json::from_slice(data.as_bytes()).unwrap_or_default(),
                };
                let _ = self.latest.try_set(told);
            });
        }
    }

    fn leave(self) {
        let last = self.followers.try_update_value(|followers| {
            *followers -= 1;
            *followers == 0
        });
        if last == Some(true) {
            let _ = self.heard.try_set(false);
            self.line.close();
        }
    }

    fn read(self, part: Part) {
        if part.under_way.try_get_value() != Some(false) {
            let _ = part.again.try_set_value(true);
            return;
        }
        let Some(read) = part.read.try_get_value() else { return };
        part.under_way.set_value(true);
        part.again.set_value(false);
        spawn_local(async move {
            if read().await.is_err() {
                self.line.lose();
            }
            set_timeout(
                move || {
                    let _ = part.under_way.try_set_value(false);
                    if part.again.try_get_value() == Some(true) {
                        self.read(part);
                    }
                },
                PAUSE,
            );
        });
    }
}

/// Whether a part of the screen has to be read again. To a list of jobs, what its rows show already is no news; a job that it does not
/// show may be new, or have come into it. To any other part, everything is.
fn is_news_to(changes: &[Change], shown: Shown) -> bool {
    let version =
        |id: &str| shown?.try_with_untracked(|list| list.jobs.iter().find(|row| row.id == id).map(|row| row.version)).flatten();
    changes.iter().any(|change| version(&change.id).is_none_or(|shown| is_news(change.version, shown)))
}

/// As of when the list is that stands beside this, unless it is followed: before a script wakes, without one, and while the
/// connection is lost.
#[component]
pub fn AsOf(#[prop(into)] at: Signal<Moment>) -> impl IntoView {
    let news = use_context::<News>();
    let said = move || match news {
        Some(news) if news.line.is_lost() => Some(("doubtful", "Connection lost, last known state at ")),
        Some(news) if news.heard.get() => None,
        _ => Some(("soft", "As of ")),
    };
    view! {
        <span role="status">
            {move || {
                let (class, words) = said()?;
                // Whoever leaves last ends the news, while this may already be without its list.
                let at = at.try_get()?;
                Some(
                    view! {
                        <span class=class>
                            {words} <Time at /> "."
                        </span>
                    },
                )
            }}
        </span>
    }
}
