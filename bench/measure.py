"""Speed: jobs per second, from enqueued to begun, from cancelled to told."""

import random
import statistics
import threading
import time
from dataclasses import dataclass

from bench.program import PeerError
from bench.session import BEGIN_S, Session

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
# How often the number of finished jobs is read while a worker drains the queue.
LOOK_S = 0.01
# A job that does not hear of its cancel within this time is never told.
TOLD_S = 5
# No single measurement goes on for longer; what was seen until then counts.
LIMIT_S = 90


@dataclass(frozen=True)
class Spread:
    """Milliseconds of repeated trials."""

    p50: float
    p95: float
    trials: int

    @classmethod
    def of(cls, milliseconds: list[float]) -> "Spread":
        cuts = statistics.quantiles(milliseconds, n=20, method="inclusive")
        return cls(statistics.median(milliseconds), cuts[18], len(milliseconds))


def throughput(session: Session, n: int) -> float:
    """Jobs per second from the first handler's first line until all are recorded as done.

    The start of the worker itself does not count, and neither does the enqueuing, except where jobs are started inside the worker.
    """
    if session.peer.inside:
        worker = session.work()
        threading.Thread(target=worker.ask, args=("fill",), kwargs={"n": n}, daemon=True).start()
    else:
        session.client.ask("fill", n=n)
        worker = session.work()
    begun = worker.wait("first", "", BEGIN_S)
    if begun is None:
        raise PeerError(f"no job began within {BEGIN_S} s")
    until = time.monotonic() + LIMIT_S
    while (done := session.finished(n)) < n and time.monotonic() < until:
        time.sleep(LOOK_S)
    return done / (time.monotonic_ns() - begun) * NS_PER_S


def start_latency(session: Session, n: int) -> Spread:
    """From the call that enqueues to the handler's first line, one job at a time, on a worker that has nothing else to do."""
    worker = session.work()
    for _ in range(5):
        session.begin("nothing")
    trials: list[float] = []
    until = time.monotonic() + LIMIT_S
    while len(trials) < n and time.monotonic() < until:
        # Idle for a while that fits no polling interval, so that polls are met at any phase.
        time.sleep(random.uniform(0.05, 0.15))
        key, _, at = session.enqueue("nothing")
        began = worker.wait("began", key, BEGIN_S)
        trials.append(BEGIN_S * 1000 if began is None else (began - at) / NS_PER_MS)
    return Spread.of(trials)


def cancel_latency(session: Session, n: int) -> Spread | str:
    """From the call that cancels to the moment at which the running handler knows; a word where it never does."""
    worker = session.work()
    trials: list[float] = []
    for _ in range(n):
        key, job = session.begin("patient")
        # Over a whole second, because polls and heartbeats of that period may start with the job.
        time.sleep(random.uniform(0.2, 1.2))
        said, at = session.cancel(key, job)
        if said is None:
            return "no call for it"
        told = worker.wait("told", key, TOLD_S)
        if told is None and not trials:
            return "never"
        trials.append(TOLD_S * 1000 if told is None else (told - at) / NS_PER_MS)
    return Spread.of(trials)
