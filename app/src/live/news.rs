//! Which of the jobs that the person may see have changed: one stream for the whole screen, shared by all of its parts that show
//! a list or a count. Each part reads its own data again, one read at a time, so that none can overtake another.

use super::{Line, Told};
use crate::{
    contract::is_news,
    error::AppError,
    model::{JobsView, Moment},
    ui::Time,
};
use leptos::{prelude::*, task::spawn_local};
use serde::Deserialize;
use std::time::Duration;

/// The shortest time between two reads of the same part, however much happens.
const PAUSE: Duration = Duration::from_millis(500);

/// A job's record has this version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Change {
    pub id: String,
    pub version: i64,
}

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

/// The reads of one part of the screen.
#[derive(Clone, Copy, Default)]
struct Reads {
    under_way: bool,
    /// Something was told after the read under way had begun.
    again: bool,
}

impl News {
    /// Reads again when the connection stands, and then whenever what is told `concerns` this part, for as long as it stands.
    /// What is told is empty where anything may have changed. An error of `read` says that nobody knows what the screen is worth.
    pub fn follow<F>(self, concerns: impl Fn(&[Change]) -> bool + 'static, read: impl Fn() -> F + Copy + 'static)
    where
        F: Future<Output = Result<(), AppError>> + 'static,
    {
        let reads = StoredValue::new(Reads::default());
        Effect::new(move |_| {
            self.join();
            Line::on_waking(move || {
                self.line.wake();
                self.read(reads, read);
            });
            on_cleanup(move || self.leave());
        });
        Effect::new(move |before: Option<()>| {
            let concerned = self.latest.with(|latest| latest.is_empty() || concerns(latest));
            // The first time nothing has been told yet.
            if before.is_some() && concerned {
                self.read(reads, read);
            }
        });
    }

    /// The same for a list of jobs: what its rows show already is no news to it, a job that it does not show may be new or have come
    /// into it, and no row gives way to an older version of itself.
    pub fn follow_jobs<F>(self, list: RwSignal<JobsView>, read: impl Fn() -> F + Copy + 'static)
    where
        F: Future<Output = Result<JobsView, AppError>> + 'static,
    {
        let shown = move |id: &str| {
            list.try_with_untracked(|list| list.jobs.iter().find(|row| row.id == id).map(|row| row.version)).flatten()
        };
        self.follow(
            move |changes| changes.iter().any(|change| shown(&change.id).is_none_or(|shown| is_news(change.version, shown))),
            move || {
                let reading = read();
                async move {
                    let read = reading.await?;
                    let _ = list.try_update(|list| list.take_over(read));
                    Ok(())
                }
            },
        );
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

    fn read<F>(self, reads: StoredValue<Reads>, read: impl Fn() -> F + Copy + 'static)
    where
        F: Future<Output = Result<(), AppError>> + 'static,
    {
        let free = reads.try_update_value(|reads| {
            reads.again = reads.under_way;
            !std::mem::replace(&mut reads.under_way, true)
        });
        if free != Some(true) {
            return;
        }
        spawn_local(async move {
            if read().await.is_err() {
                self.line.lose();
            }
            set_timeout(
                move || {
                    if reads.try_update_value(|reads| std::mem::take(reads).again) == Some(true) {
                        self.read(reads, read);
                    }
                },
                PAUSE,
            );
        });
    }
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
                said()
                    .map(|(class, words)| {
                        view! {
                            <span class=class>
                                {words} <Time at=at.get() /> "."
                            </span>
                        }
                    })
            }}
        </span>
    }
}
