//! How long is waited for the right to write.

use crate::Unavailable;
use std::{cell::Cell, time::Duration};
use tokio::{
    task_local,
    time::{Instant, timeout},
};

task_local! {
    /// How long this task may still wait, all its waits together.
    static LEFT: Cell<Duration>;
}

/// Does something that waits at most so long, in all, for the right to write; the database is then said to be too slow or too
/// busy. Without this it is waited for as long as the database allows.
pub async fn waiting_at_most<T>(longest: Duration, work: impl Future<Output = T>) -> T {
    LEFT.scope(Cell::new(longest), work).await
}

/// Waits for `begin` as long as this task may, and fails with `late` then.
pub async fn patiently<T>(late: Unavailable, begin: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    let Ok(left) = LEFT.try_with(Cell::get) else { return begin.await };
    let asked_at = Instant::now();
    let result = timeout(left, begin).await;
    LEFT.with(|rest| rest.set(left.saturating_sub(asked_at.elapsed())));
    result.unwrap_or_else(|_| Err(late.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test(start_paused = true)]
    async fn all_waits_of_a_task_together_have_an_end() {
        let start = Instant::now();
        waiting_at_most(Duration::from_secs(3), async {
            let short = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(7)
            };
            assert_eq!(patiently(Unavailable::Busy, short).await.ok(), Some(7));
            for _ in 0..2 {
                let late = patiently::<u32>(Unavailable::Busy, pending()).await.expect_err("it never begins");
                assert_eq!(Unavailable::of(&late), Some(Unavailable::Busy));
            }
        })
        .await;
        assert_eq!(start.elapsed(), Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_no_limit_waits_on() {
        let late = async {
            tokio::time::sleep(Duration::from_mins(1)).await;
            Ok(7)
        };
        assert_eq!(patiently(Unavailable::Busy, late).await.ok(), Some(7));
    }
}
