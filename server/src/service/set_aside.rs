//! A job of a restored copy that had not ended when the backup was made: what its page says, and the decision that it waits for.

use super::{
    Done, Service, ServiceError,
    afterwards::{moved_on, text},
    view::{Reader, moment},
};
use app::model::{JobView, MAX_REASON, Moment, Viewer};
use contract::{Effect, JobKind, Mark};
use domain::id::JobId;
use store::Record;

impl Service {
    /// Adds to a job's view that nobody here knows what has become of it. That stays so when it ends here without having been done.
    pub(super) async fn add_set_aside(&self, record: &Record, reader: &Reader, view: &mut JobView) -> Result<(), ServiceError> {
        let copied = record.job.phase.is_final() && record.job.emails().any(Effect::is_copied);
        let Some(at) = record.row.set_aside_at.or(record.row.restored_at.filter(|_| copied)) else { return Ok(()) };
        let copied = self.store().copied_at(at).await?.map(|at| moment(at, reader.zone));
        let unknown = not_known(record.job.kind, copied.as_ref());
        if view.phase.is_final() {
            view.reason = Some(view.reason.take().map_or_else(|| unknown.clone(), |reason| format!("{reason} {unknown}")));
        } else {
            view.reason = Some(format!("It waits for a person. {unknown}"));
            view.mark = Mark::Waiting;
            view.set_aside = Some(moment(at, reader.zone));
        }
        Ok(())
    }

    /// Lets a job that was set aside go on. A repetition changes nothing.
    pub async fn go_on(&self, who: &Viewer, id: JobId, why: &str) -> Done<()> {
        self.visible(who, id).await?;
        match text(why, MAX_REASON) {
            Ok(why) => moved_on(self.store().go_on(id, &who.email, &why).await),
            Err(said) => Ok(Err(said)),
        }
    }
}

fn not_known(kind: JobKind, copied: Option<&Moment>) -> String {
    let what = match kind {
        JobKind::Report => "report",
        JobKind::Correction => "correction",
        JobKind::SecondCopy => "second copy",
    };
    let after = copied.map_or_else(|| "this copy was made".to_owned(), |at| format!("the backup of {}", at.text));
    format!(
        "This is a restored copy. What happened to this {what} after {after} is not known here: it may have been finished and \
         e-mailed already."
    )
}
