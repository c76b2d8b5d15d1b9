//! When a sign-in is refused without looking at the password. Pure: the store counts, this decides.
//!
//! The count is kept per account, not per network address: guesses at one account come from many addresses, and a proxy in
//! front would make all people one address. An account that does not exist is counted like any other, so the answer tells
//! nothing about who has one.

use chrono::{DateTime, TimeDelta, Utc};

/// So many failures are free.
pub const MAX_FAILURES: usize = 5;

/// A failure counts for this long.
pub const WINDOW: TimeDelta = TimeDelta::minutes(15);

/// Whether a sign-in may be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The password may be looked at.
    Admitted,
    /// No, not even with the right password.
    Refused {
        /// When a failure stops counting and a further try is admitted.
        until: DateTime<Utc>,
    },
}

/// Decides on a try at `now`; `failures` are the earlier ones of the account, oldest first.
pub fn admission(failures: &[DateTime<Utc>], now: DateTime<Utc>) -> Admission {
    // The newest five decide: the oldest of them is the first whose passing makes room.
    let decisive = failures.len().checked_sub(MAX_FAILURES).and_then(|index| failures.get(index));
    match decisive {
        Some(oldest) if *oldest + WINDOW > now => Admission::Refused { until: *oldest + WINDOW },
        _ => Admission::Admitted,
    }
}

/// The whole minutes from `now` to `until`, rounded up, at least one.
pub fn minutes_until(until: DateTime<Utc>, now: DateTime<Utc>) -> u64 {
    let milliseconds = u64::try_from((until - now).num_milliseconds()).unwrap_or(0);
    milliseconds.div_ceil(60_000).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::minutes(minute)
    }

    #[test]
    fn four_failures_are_free_and_five_are_not() {
        let failures: Vec<_> = (0..5).map(at).collect();
        assert_eq!(admission(&[], at(5)), Admission::Admitted);
        assert_eq!(admission(&failures[..4], at(5)), Admission::Admitted);
        assert_eq!(admission(&failures, at(5)), Admission::Refused { until: at(15) });
    }

    #[test]
    fn the_window_ends_at_its_minute() {
        let failures = [at(0); 5];
        assert_eq!(admission(&failures, at(15) - TimeDelta::microseconds(1)), Admission::Refused { until: at(15) });
        assert_eq!(admission(&failures, at(15)), Admission::Admitted);
    }

    #[test]
    fn old_failures_do_not_count() {
        let failures = [at(0), at(1), at(20), at(20), at(20), at(20)];
        assert_eq!(admission(&failures, at(21)), Admission::Admitted);
    }

    #[test]
    fn minutes_are_rounded_up() {
        assert_eq!(minutes_until(at(15), at(0)), 15);
        assert_eq!(minutes_until(at(15), at(0) + TimeDelta::seconds(1)), 15);
        assert_eq!(minutes_until(at(15), at(14) - TimeDelta::milliseconds(500)), 2);
        assert_eq!(minutes_until(at(15), at(14) + TimeDelta::seconds(30)), 1);
        assert_eq!(minutes_until(at(15), at(16)), 1);
    }
}
