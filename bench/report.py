"""The tables."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from bench.cluster import Cluster
from bench.measure import Spread
from bench.peers import Peer
from bench.probe import Cancelled, Killed, Look


# A load per core above which the figures say more about the neighbours than about the peers.
BUSY = 0.25


@dataclass
class Result:
    peer: Peer
    # Jobs per second of each round, lowest first.
    rates: list[float]
    start: Spread | None = None
    cancel: Spread | str | None = None
    cancelled: Cancelled | None = None
    killed: Killed | None = None
    failure: str = ""

    @property
    def rate(self) -> float | None:
        return self.rates[len(self.rates) // 2] if self.rates else None


@dataclass(frozen=True)
class Conditions:
    """How the machine was at the beginning of a round, before any peer ran."""

    commit_ms: float
    load: float

    @classmethod
    def now(cls, running: Cluster) -> "Conditions":
        load = os.getloadavg()[0]
        return cls(running.commit_ms(), load)


def conditions(rounds: list[Conditions]) -> str:
    """The first round's load is that of other programs alone; later ones include the bench's own."""
    commits = [each.commit_ms for each in rounds]
    text = f"A small commit took {min(commits):.1f} to {max(commits):.1f} ms; the load average before the first round was {rounds[0].load:.1f}."
    if rounds[0].load > BUSY * (os.cpu_count() or 1):
        text += "\n**Other programs kept the machine busy: these figures show that the bench works and are not to be quoted.**"
    return text


def machine() -> str:
    cpus = Path("/proc/cpuinfo").read_text().splitlines()
    models = {line.split(":", 1)[1].strip() for line in cpus if line.startswith("model name")}
    return f"{os.cpu_count()} cores ({', '.join(sorted(models)) or platform.machine()})"


def speed(results: list[Result]) -> str:
    recount = next((result for result in results if result.peer.name == "Recount"), None)
    lines = [
        "| system | version | records steps | jobs/s, median (range) | × Recount | start p50 | start p95 | × Recount | cancel p50 | cancel p95 | × Recount |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        start, cancel = result.start, result.cancel
        cells = [
            result.peer.name,
            result.peer.version(),
            "yes" if result.peer.steps else "no",
            f"{result.rate:,.0f} ({result.rates[0]:,.0f}–{result.rates[-1]:,.0f})" if result.rate else result.failure or "–",
            ratio(result.rate, recount and recount.rate),
            *latency(start, recount and recount.start),
            *latency(cancel, recount and recount.cancel),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def latency(spread: Spread | str | None, of: Spread | str | None) -> list[str]:
    """p50, p95 and the ratio of the latter."""
    if not isinstance(spread, Spread):
        return [spread or "–", "–", "–"]
    return [milliseconds(spread.p50), milliseconds(spread.p95), ratio(spread.p95, of.p95 if isinstance(of, Spread) else None)]


def milliseconds(value: float) -> str:
    return f"{value:.1f} ms"


def ratio(value: float | None, of: float | None) -> str:
    return f"{value / of:.2f}" if value and of else "–"


def honesty(results: list[Result]) -> str:
    lines = [
        "| system | 0.5 s after the cancel | second cancel | at the end | late cancel | after kill -9 of the worker |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        if result.cancelled and result.killed:
            lines.append(f"| {' | '.join([result.peer.name, *told(result.cancelled), after_kill(result.killed)])} |")
    return "\n".join(lines)


def told(seen: Cancelled) -> list[str]:
    no_call = "no call for it"
    outcome = "the work was done to its end" if seen.worked_on else "the work was broken off"
    return [
        look(seen.during) if seen.answer is not None else f"{no_call}; {look(seen.during)}",
        f"answers {seen.second_answer!r}" if seen.second_answer is not None else no_call,
        f"shows '{seen.at_end.shows}'; {outcome}",
        f"answers {seen.late_answer!r}, shows '{seen.after_late}'" if seen.late_answer is not None else no_call,
    ]


def look(seen: Look) -> str:
    work = "the work runs on" if seen.runs else "the work has ended"
    text = f"shows '{seen.shows}'; {work}"
    return text if seen.true else f"**{text}**"


def after_kill(seen: Killed) -> str:
    changes = "".join(f", '{shows}' after {seconds:.0f} s" for seconds, shows in seen.changes)
    work = "runs again" if seen.last.runs else "was begun again" if seen.begun_again else "nobody works on it"
    text = f"'{seen.at_once}'{changes}; {work}"
    return text if seen.last.true else f"**{text}**"
