//! The dates that uploaded files hold. A form asks for them whenever it is shown, and to read every file again for that, from a
//! file store perhaps, would make it slow. An upload never changes, so what was read once stays true.

use documents::read::date::{DateRule, When};
use domain::id::UploadId;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// As many are remembered before all are forgotten: some megabyte.
const MOST: usize = 10_000;

/// The date that a file holds, if it holds one.
pub type EmbeddedDate = Option<(When, DateRule)>;

/// What was read before.
#[derive(Debug, Default)]
pub struct UploadDates(Mutex<HashMap<UploadId, EmbeddedDate>>);

impl UploadDates {
    /// The date that the file holds; `None` if it has not been read yet.
    pub fn of(&self, id: UploadId) -> Option<EmbeddedDate> {
        self.known().get(&id).copied()
    }

    /// Remembers a date.
    pub fn remember(&self, id: UploadId, date: EmbeddedDate) {
        let mut known = self.known();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(id, date);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<UploadId, EmbeddedDate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
