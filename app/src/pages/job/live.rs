//! Keeps a job's record up to date in the browser, and carries its Cancel.
//!
//! The server's stream only says that a newer version exists; the record itself is always read by the same server function.
//! An older version never replaces a newer one, whatever the order in which answers arrive. Nothing in here runs while the
//! server renders: effects and handlers exist in the browser only.

use super::{cancel_job, read_job};
use crate::{
    error::AppError,
    live::{Line, Told},
    model::{JobView, SecondCopyOffer},
};
use contract::{is_news, may_replace};
use leptos::{prelude::*, task::spawn_local};
use serde::Deserialize;
use std::time::Duration;

/// How long a Cancel may stay without an answer before the screen says so.
const PATIENCE: Duration = Duration::from_secs(3);
/// The pause between two looks at the record of a Cancel that got no answer.
const RECHECK: Duration = Duration::from_secs(1);

/// What has become of the Cancel that was pressed on this screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Press {
    /// Not pressed.
    No,
    /// Under way.
    Sent,
    /// Without an answer: the record is read until it tells.
    Checking,
    /// It changed nothing, with the sentence for that.
    Answered(String),
}

/// The job on this screen. Its signals belong to the page and end with it, hence the many `try_`.
#[derive(Clone, Copy)]
pub struct Live {
    job: RwSignal<JobView>,
    line: Line,
    press: RwSignal<Press>,
    pressed: StoredValue<bool>,
}

/// The data of a `job` event.
#[derive(Deserialize)]
struct Announcement {
    version: i64,
}

impl Live {
    /// Starts from the record that the page was rendered with.
    pub fn new(job: JobView) -> Self {
        Self {
            job: RwSignal::new(job),
            line: Line::new("job"),
            press: RwSignal::new(Press::No),
            pressed: StoredValue::new(false),
        }
    }

    /// One part of the record; what shows it is only touched when this part changes.
    pub fn part<T: Clone + PartialEq + Send + Sync + 'static>(self, of: fn(&JobView) -> T) -> Memo<T> {
        Memo::new(move |_| self.job.with(of))
    }

    /// The job's id, which never changes.
    pub fn id(self) -> String {
        self.job.with_untracked(|job| job.id.clone())
    }

    /// The address of something below the job's page.
    pub fn path(self, below: &str) -> String {
        format!("/jobs/{}{below}", self.id())
    }

    /// The offer to send the message with this number a second time.
    pub fn second_copy(self, number: u32) -> Memo<Option<SecondCopyOffer>> {
        let find = move |job: &JobView| job.afterwards.second_copies.iter().find(|offer| offer.number == number).cloned();
        Memo::new(move |_| self.job.with(find))
    }

    /// Whether nothing has been heard from the server for too long.
    pub fn is_lost(self) -> bool {
        self.line.is_lost()
    }

    /// What has become of the Cancel.
    pub fn press(self) -> Press {
        self.press.get()
    }

    /// Whether Cancel was pressed on this screen.
    pub fn was_pressed(self) -> bool {
        self.pressed.try_get_value() == Some(true)
    }

    /// Follows the record for as long as the page stands. A job that has ended changes only by what people and looks find out
    /// about its effects: its record is read again when the person comes back to the page.
    pub fn follow(self) {
        Effect::new(move |_| {
            if !self.has_ended() {
                self.line.open(self.path("/events"), move |told| match told {
                    Told::Opened => self.read(),
                    Told::Event(data) => self.announced(&data),
                });
            }
            Line::on_waking(move || {
                self.line.wake();
                self.read();
            });
            on_cleanup(move || self.line.close());
        });
    }

    fn has_ended(self) -> bool {
        self.job.try_with_untracked(|job| job.phase.is_final()).unwrap_or(true)
    }

    /// Takes a record over unless the screen already shows a newer one.
    fn offer(self, read: JobView) {
        let ended = read.phase.is_final();
        let _ = self.job.try_update(|known| {
            if may_replace(read.version, known.version) {
                *known = read;
            }
        });
        if ended {
            self.line.close();
        }
    }

    fn read(self) {
        let Some(id) = self.job.try_with_untracked(|job| job.id.clone()) else { return };
        spawn_local(async move {
            match read_job(id).await {
                Ok(job) => self.offer(job),
                // Nobody knows now what the screen is worth; the next connection begins by reading again.
                Err(_) => self.line.lose(),
            }
        });
    }

    fn announced(self, data: &str) {
        let version = serde_json::from_slice(data.as_bytes()).ok().map(|Announcement { version }| version);
        let known = self.job.try_with_untracked(|job| job.version);
        if version.zip(known).is_some_and(|(version, known)| is_news(version, known)) {
            self.read();
        }
    }

    /// Sends the Cancel.
    pub fn cancel(self) {
        if matches!(self.press.get_untracked(), Press::Sent | Press::Checking) {
            return;
        }
        self.press.set(Press::Sent);
        self.pressed.set_value(true);
        self.send_cancel();
        set_timeout(
            move || {
                if self.press.try_get_untracked() == Some(Press::Sent) {
                    self.check_cancel();
                }
            },
            PATIENCE,
        );
    }

    /// Sends it, or sends it again: the server answers a repetition in the same way.
    fn send_cancel(self) {
        let Some(id) = self.job.try_with_untracked(|job| job.id.clone()) else { return };
        spawn_local(async move {
            match cancel_job(id).await {
                Ok(answer) => {
                    self.offer(answer.job);
                    // An accepted cancel is part of the record, which says it better.
                    let told = if answer.outcome == "accepted" { Press::No } else { Press::Answered(answer.message) };
                    let _ = self.press.try_set(told);
                }
                Err(refusal @ (AppError::SignInRequired | AppError::Forbidden | AppError::NotFound)) => {
                    let _ = self.press.try_set(Press::Answered(refusal.to_string()));
                }
                Err(_) => {
                    if self.press.try_get_untracked() == Some(Press::Sent) {
                        self.check_cancel();
                    }
                }
            }
        });
    }

    /// No answer came: whether the Cancel arrived is read from the record, and it is sent again until the record tells.
    fn check_cancel(self) {
        let _ = self.press.try_set(Press::Checking);
        let Some(id) = self.job.try_with_untracked(|job| job.id.clone()) else { return };
        spawn_local(async move {
            if let Ok(job) = read_job(id).await {
                let known = job.cancel.is_some() || job.phase.is_final();
                self.offer(job);
                if known {
                    let _ = self.press.try_set(Press::No);
                } else if self.press.try_get_untracked() == Some(Press::Checking) {
                    self.send_cancel();
                }
            }
        });
        set_timeout(
            move || {
                if self.press.try_get_untracked() == Some(Press::Checking) {
                    self.check_cancel();
                }
            },
            RECHECK,
        );
    }
}

#[cfg(all(test, feature = "ssr"))]
mod tests {
    use super::*;
    use crate::model::{AfterwardsView, Moment};
    use contract::{Mark, Phase};

    fn record(version: i64, phase: Phase) -> JobView {
        let headline = format!("version {version}");
        JobView {
            id: "7".into(),
            version,
            as_of: Moment { iso: "2026-11-29T09:43:07Z".into(), text: "29 Nov 2026, 10:43:07".into() },
            title: "Team month, June 2026".into(),
            month: "2026-06".into(),
            phase,
            mark: Mark::Running,
            headline,
            reason: None,
            waiting_for: None,
            waiting_since: None,
            waiting_seconds: None,
            account_now: None,
            if_cancelled_now: None,
            cancel: None,
            hold: None,
            set_aside: None,
            steps: Vec::new(),
            under_way: None,
            effects: Vec::new(),
            coverage: Vec::new(),
            coverage_summary: None,
            facts: Vec::new(),
            history: Vec::new(),
            report_path: None,
            again_path: "/?from=7".into(),
            withdrawn: None,
            about: None,
            mailings: Vec::new(),
            afterwards: AfterwardsView::default(),
        }
    }

    fn shown(live: Live) -> i64 {
        live.job.with_untracked(|job| job.version)
    }

    #[test]
    fn invariant_09_a_page_keeps_the_newer_record() {
        Owner::new().with(|| {
            let live = Live::new(record(5, Phase::Running));
            live.offer(record(4, Phase::Running));
            assert_eq!(shown(live), 5);
            live.offer(record(6, Phase::Stopping));
            live.offer(record(5, Phase::Running));
            assert_eq!(shown(live), 6);
            assert!(!live.has_ended());
        });
    }

    #[test]
    fn the_same_version_tells_when_it_was_read_last() {
        Owner::new().with(|| {
            let live = Live::new(record(5, Phase::Running));
            let later = Moment { iso: "2026-11-29T09:44:00Z".into(), text: "29 Nov 2026, 10:44:00".into() };
            live.offer(JobView { as_of: later.clone(), ..record(5, Phase::Running) });
            assert_eq!(live.job.with_untracked(|job| job.as_of.clone()), later);
        });
    }

    #[test]
    fn a_job_that_has_ended_is_followed_no_longer() {
        Owner::new().with(|| {
            let live = Live::new(record(5, Phase::Running));
            live.line.lost.set(true);
            live.offer(record(6, Phase::Cancelled));
            assert!(live.has_ended());
            assert!(!live.line.lost.get_untracked());
        });
    }
}
