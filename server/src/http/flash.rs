//! Secrets on their way from the form that made them to the page that shows them once. They live in memory: writing a
//! token's secret down, even for a minute, is what storing its digest avoids.

use crate::{id::UserId, people::secret::Secret};
use chrono::{DateTime, TimeDelta, Utc};
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};
use uuid::Uuid;

/// How long a secret waits for its page.
const LIFETIME: TimeDelta = TimeDelta::minutes(5);

/// So many wait at most; the oldest goes first.
const CAPACITY: usize = 256;

struct Flash {
    id: Uuid,
    user: UserId,
    secret: Secret,
    until: DateTime<Utc>,
}

/// The secrets that wait.
#[derive(Default)]
pub struct Flashes(Mutex<VecDeque<Flash>>);

impl Flashes {
    /// Keeps a secret for `user` and returns the name to ask for it with.
    pub fn put(&self, user: UserId, secret: Secret, now: DateTime<Utc>) -> Uuid {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|flash| flash.until > now);
        if waiting.len() == CAPACITY {
            waiting.pop_front();
        }
        let id = Uuid::new_v4();
        waiting.push_back(Flash { id, user, secret, until: now + LIFETIME });
        id
    }

    /// Hands a secret out, to the person that it is for and only once.
    pub fn take(&self, user: UserId, id: Uuid, now: DateTime<Utc>) -> Option<Secret> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|flash| flash.until > now);
        let index = waiting.iter().position(|flash| flash.id == id && flash.user == user)?;
        waiting.remove(index).map(|flash| flash.secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;

    #[test]
    fn a_secret_is_shown_once_and_to_its_owner() {
        let (flashes, ada, eve) = (Flashes::default(), UserId::new(), UserId::new());
        let id = flashes.put(ada, Secret::received("rct_x"), NOW);
        assert_eq!(flashes.take(eve, id, NOW), None);
        assert_eq!(flashes.take(ada, id, NOW), Some(Secret::received("rct_x")));
        assert_eq!(flashes.take(ada, id, NOW), None);
    }

    #[test]
    fn a_secret_waits_five_minutes() {
        let (flashes, ada) = (Flashes::default(), UserId::new());
        let id = flashes.put(ada, Secret::received("rct_x"), NOW);
        assert_eq!(flashes.take(ada, id, NOW + LIFETIME), None);
    }

    #[test]
    fn the_oldest_makes_room() {
        let (flashes, ada) = (Flashes::default(), UserId::new());
        let ids: Vec<_> = (0..=CAPACITY).map(|_| flashes.put(ada, Secret::received("rct_x"), NOW)).collect();
        assert_eq!(flashes.take(ada, ids[0], NOW), None);
        assert!(flashes.take(ada, ids[1], NOW).is_some());
    }
}
