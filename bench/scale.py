"""How Recount's speed depends on what is in the database: a long queue, a person at the limit, a long history."""

import argparse
import sys
import time
from contextlib import AbstractContextManager

import psycopg

from bench import measure, report
from bench.cluster import Cluster, cluster
from bench.measure import NS_PER_S
from bench.peers import RECOUNT, TOOLS
from bench.program import PeerError
from bench.report import Conditions
from bench.session import BEGIN_S, SLOTS, Session, session

# Tables whose rows outlive a job's end; the order in which rows can be copied.
LEDGER = ("jobs", "steps", "effects", "attempts", "history", "documents", "summaries", "messages", "reports")
# How many real jobs are copied.
TEMPLATES = 20
# How many jobs of one person may be at work.
LIMIT = 2
# The pause between two counts of what is done.
COUNT_S = 0.25


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.scale", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000, help="jobs of one measurement")
    parser.add_argument("--queues", type=int, nargs="*", default=[100, 10_000], help="jobs that wait behind the measured ones")
    parser.add_argument("--histories", type=int, nargs="*", default=[1_000, 100_000, 1_000_000], help="rows of history")
    options = parser.parse_args()
    (TOOLS / "log").mkdir(parents=True, exist_ok=True)
    with cluster() as running:
        conditions = [Conditions.now(running)]
        sections = [queues(running, options), limit(running, options), histories(running, options)]
    text = f"# Recount's scale\n\n{report.machine()}. {report.conditions(conditions)}\n\n" + "\n".join(sections)
    print(text)
    (TOOLS / "scale.md").write_text(text)
    return 0


def queues(running: Cluster, options: argparse.Namespace) -> str:
    """The first jobs of queues of different lengths."""
    lines = ["| jobs in the queue | jobs/s |", "|---|---|"]
    for behind in options.queues:
        with opened(running) as on:
            on.client.ask("fill", n=options.jobs + behind)
            rate = drain(on, options.jobs)
            lines.append(f"| {options.jobs + behind:,} | {rate:,.0f} |")
            note(lines[-1])
    return "\n".join(lines) + "\n"


def limit(running: Cluster, options: argparse.Namespace) -> str:
    """Jobs of one person behind the queue of another who has as many at work as anybody may."""
    each = options.jobs // SLOTS // 2
    lines = ["| jobs in front, of a person at the limit | jobs/s of other people |", "|---|---|"]
    for before in [0, *options.queues]:
        with opened(running) as on:
            for number in range(LIMIT):
                on.client.ask("enqueue", kind="patient", key=f"patient-{number}", person="busy@example.org")
            on.client.ask("fill", n=before, person="busy@example.org")
            # Of as many people as there are slots, since the limit is theirs as well.
            for number in range(SLOTS):
                on.client.ask("fill", n=each, person=f"person-{number}@example.org")
            rate = drain(on, each * SLOTS, per_person=LIMIT)
            lines.append(f"| {before:,} | {rate:,.0f} |")
            note(lines[-1])
    return "\n".join(lines) + "\n"


def histories(running: Cluster, options: argparse.Namespace) -> str:
    """Jobs in a database that many have gone through."""
    lines = [
        "| rows of history (finished jobs; rows in all) | jobs/s | start p50 | start p95 | rows read by sequential scans, for each job |",
        "|---|---|---|---|---|",
    ]
    for rows in options.histories:
        with opened(running) as on:
            on.client.ask("fill", n=TEMPLATES)
            drain(on, TEMPLATES)
            on.worker.kill()
            jobs, total = grow(on.record, rows)
            on.client.ask("fill", n=options.jobs)
            before = sequential(on.record)
            rate = drain(on, options.jobs)
            after = sequential(on.record)
            on.worker.kill()
            start = measure.start_latency(on, 100)
            scanned = {table: (after[table] - before[table]) / options.jobs for table in after}
            scans = ", ".join(f"{table} {read:,.0f}" for table, read in scanned.items() if read >= 1)
            figures = f"{rate:,.0f} | {start.p50:.1f} ms | {start.p95:.1f} ms"
            lines.append(f"| {rows:,} ({jobs:,}; {total:,}) | {figures} | {scans or 'none'} |")
            note(lines[-1])
    return "\n".join(lines) + "\n"


def opened(running: Cluster) -> AbstractContextManager[Session]:
    return session(RECOUNT, running, TOOLS / "log")


def drain(on: Session, n: int, **terms: int) -> float:
    """Jobs per second of a new worker, from its first claim until `n` jobs have ended."""
    count = "select count(*) from jobs where finished_at is null"
    waiting = on.record.execute(count).fetchone()[0]
    begun = on.work(**terms).wait("first", "", BEGIN_S)
    if begun is None:
        raise PeerError(f"no job began within {BEGIN_S} s")
    until = time.monotonic() + measure.LIMIT_S
    while (done := waiting - on.record.execute(count).fetchone()[0]) < n and time.monotonic() < until:
        # Counting ten thousand open ones is work for the database as well, so that it is not done often.
        time.sleep(COUNT_S)
    return done / (time.monotonic_ns() - begun) * NS_PER_S


def grow(record: psycopg.Connection, rows: int) -> tuple[int, int]:
    """Copies what the finished jobs have left behind, a minute apart into the past; returns the jobs and all rows."""
    count = "select (select count(*) from history), (select count(*) from jobs)"
    entries, jobs = record.execute(count).fetchone()
    record.execute(
        """
        create temp table copies as
        select id as old, make_interval(mins => number::int) as ago,
               (lpad(to_hex(floor(extract(epoch from created_at) * 1000)::bigint - number * 60000), 12, '0') || '70008000'
                   || lpad(to_hex(number), 12, '0'))::uuid as new
        from (select id, created_at, row_number() over () as number from jobs cross join generate_series(1, %s)) as numbered""",
        [max(0, (rows - entries) // entries)],
    )
    for table in LEDGER:
        columns = record.execute(
            """
            select column_name, data_type from information_schema.columns
            where table_name = %s and is_identity = 'NO' order by ordinal_position""",
            [table],
        ).fetchall()
        values = ", ".join(copied(table, name, kind) for name, kind in columns)
        names = ", ".join(name for name, _ in columns)
        key = "id" if table == "jobs" else "job_id"
        record.execute(f"insert into {table} ({names}) select {values} from {table} as old join copies on old.{key} = copies.old")
    record.execute("analyze")
    record.execute("checkpoint")
    total = sum(record.execute(f"select count(*) from {table}").fetchone()[0] for table in LEDGER)
    return record.execute("select count(*) from jobs").fetchone()[0], total


def copied(table: str, name: str, kind: str) -> str:
    """What a copied row has in this column."""
    match table, name:
        case ("jobs", "id") | (_, "job_id"):
            return "copies.new"
        case ("jobs", "request_key") | ("reports", "id"):
            return "gen_random_uuid()"
    return f"old.{name} - copies.ago" if kind == "timestamp with time zone" else f"old.{name}"


def sequential(record: psycopg.Connection) -> dict[str, int]:
    """How many rows sequential scans have read so far."""
    # Each process tells about once a second what it has read.
    record.execute("select pg_stat_force_next_flush()")
    time.sleep(2)
    return dict(record.execute("select relname, seq_tup_read from pg_stat_user_tables order by relname").fetchall())


def note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
