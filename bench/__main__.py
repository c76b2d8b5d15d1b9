"""Runs the peers side by side and prints the tables; `make bench-peers` at the top of the project sets up and calls this."""

import argparse
import datetime
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import measure, probe, report
from bench.cluster import Cluster, cluster
from bench.peers import PEERS, RECOUNT, TOOLS, Peer
from bench.report import Conditions, Result
from bench.session import SLOTS, Session, session

ROUNDS = 3


def main() -> int:
    options = arguments()
    # Ending by way of an exception lets the contexts kill the peers and stop the cluster.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    peers = [peer for peer in [RECOUNT, *PEERS] if not options.only or any(word in peer.name.lower() for word in options.only)]
    logs = TOOLS / "log"
    logs.mkdir(parents=True, exist_ok=True)
    results = {peer.name: Result(peer, []) for peer in peers}
    with cluster() as running:
        bench = Bench(running, logs, results)
        # The peers take turns, so that a disturbance of the machine does not meet one of them alone.
        rounds: list[Conditions] = []
        for turn in range(ROUNDS):
            rounds.append(Conditions.now(running))
            for peer in peers:
                bench.note(peer, f"throughput {turn + 1}/{ROUNDS}", lambda on: measure.throughput(on, options.jobs), add_rate)
        for peer in peers:
            bench.note(peer, "start latency", lambda on: measure.start_latency(on, options.starts), put("start"))
        for peer in [peer for peer in peers if not peer.speed_only]:
            bench.note(peer, "cancel latency", lambda on: measure.cancel_latency(on, options.cancels), put("cancel"))
            bench.note(peer, "cancelled", probe.cancelled, put("cancelled"))
            bench.note(peer, "killed", probe.killed, put("killed"))
        text = document(running, list(results.values()), rounds, options)
    print(text)
    target = TOOLS / "peers.md"
    target.write_text(text)
    print(f"Written to {target.relative_to(Path.cwd())}", file=sys.stderr)
    failures = [f"{result.peer.name}: {result.failure}" for result in results.values() if result.failure]
    print("\n".join(failures), file=sys.stderr)
    return 1 if failures else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--only", nargs="*", help="parts of the names of the systems to measure")
    parser.add_argument("--jobs", type=int, default=2000, help="jobs of one round of throughput")
    parser.add_argument("--starts", type=int, default=100, help="trials of the start latency")
    parser.add_argument("--cancels", type=int, default=20, help="trials of the cancel latency")
    return parser.parse_args()


def add_rate(result: Result, rate: float) -> None:
    result.rates = sorted([*result.rates, rate])


def put(name: str) -> Callable[[Result, Any], None]:
    return lambda result, value: setattr(result, name, value)


class Bench:
    def __init__(self, running: Cluster, logs: Path, results: dict[str, Result]) -> None:
        self.running = running
        self.logs = logs
        self.results = results

    def note(self, peer: Peer, what: str, measured: Callable[[Session], Any], keep: Callable[[Result, Any], None]) -> None:
        """Takes one measurement on a fresh database. A peer that fails is said to fail; the others go on."""
        result = self.results[peer.name]
        try:
            with session(peer, self.running, self.logs) as on:
                value = measured(on)
        except Exception as error:
            result.failure = f"{what}: {error}"
            value = None
        else:
            keep(result, value)
        print(f"{peer.name}: {what}: {value if value is not None else result.failure}", file=sys.stderr, flush=True)


def document(running: Cluster, results: list[Result], rounds: list[Conditions], options: argparse.Namespace) -> str:
    settings = running.settings()
    version = settings.pop("server_version").split()[0]
    durability = ", ".join(f"{name}={value}" for name, value in settings.items())
    return f"""# Recount beside its peers

{datetime.date.today()}, {report.machine()}, PostgreSQL {version} with {durability} on {running.file_system()}.
{options.jobs:,} jobs a round and {ROUNDS} rounds, {SLOTS} jobs at a time; {options.starts} starts and {options.cancels} cancels one by one.
{report.conditions(rounds)}

## Speed

{report.speed(results)}

"× Recount" is the system's figure as a multiple of Recount's.

## Honesty

A job works for 3 s and notices nothing meanwhile; it is cancelled after 1 s. In bold: the record said what was not so.

{report.honesty(results)}
"""


if __name__ == "__main__":
    sys.exit(main())
