"""Honesty: what a system shows about a job, beside what the job is really doing.

The job works for three seconds and notices nothing meanwhile, like a call that cannot be interrupted. It is cancelled after one second.
"""

import time
from dataclasses import dataclass

from bench.session import END_S, Id, Session

CANCEL_AFTER_S = 1.0
LOOK_AFTER_S = 0.5
# How long a fresh worker may take to put the record of a killed one right.
WATCH_S = 30.0


@dataclass(frozen=True)
class Look:
    """What was shown, and what was true at that moment."""

    shows: str
    ended: bool
    runs: bool

    @property
    def true(self) -> bool:
        """A record that speaks of an end while the work runs on is not true, and neither is one that speaks of work that nobody does."""
        return self.ended != self.runs


@dataclass(frozen=True)
class Cancelled:
    """What there was to see of a job that was cancelled and worked on to its end."""

    answer: str | None
    during: Look
    second_answer: str | None
    at_end: Look
    late_answer: str | None
    after_late: str
    # The handler's work was done to its end.
    worked_on: bool


@dataclass(frozen=True)
class Killed:
    """What there was to see of a cancelled job whose worker was killed."""

    at_once: str
    # Each new word, with the seconds since the kill.
    changes: list[tuple[float, str]]
    last: Look
    begun_again: bool


def look(session: Session, job: Id, runs: bool) -> Look:
    shows = session.shows(job)
    return Look(shows, shows.startswith(session.peer.ended), runs)


def cancelled(session: Session) -> Cancelled:
    worker = session.work()
    key, job = session.begin("stubborn")
    time.sleep(CANCEL_AFTER_S)
    answer, _ = session.cancel(key, job)
    time.sleep(LOOK_AFTER_S)
    during = look(session, job, runs=not worker.times("ended", key))
    second, _ = session.cancel(key, job)
    worked_on = worker.wait("ended", key, END_S) is not None
    time.sleep(LOOK_AFTER_S)
    at_end = look(session, job, runs=False)
    late, _ = session.cancel(key, job)
    return Cancelled(answer, during, second, at_end, late, session.shows(job), worked_on)


def killed(session: Session) -> Killed:
    worker = session.work()
    key, job = session.begin("stubborn")
    time.sleep(CANCEL_AFTER_S)
    session.cancel(key, job)
    time.sleep(LOOK_AFTER_S)
    worker.kill()
    since = time.monotonic()
    at_once = shown = session.shows(job)
    fresh = session.work()
    changes: list[tuple[float, str]] = []
    while (passed := time.monotonic() - since) < WATCH_S:
        if (now := session.shows(job)) != shown:
            changes.append((passed, now))
            shown = now
        time.sleep(0.1)
    again = bool(fresh.times("began", key))
    return Killed(at_once, changes, look(session, job, runs=len(fresh.times("began", key)) > len(fresh.times("ended", key))), again)
