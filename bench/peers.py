"""The systems that are measured: how each is started, and how its own tables are read."""

import importlib.metadata
import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent
TARGET = SOURCE.parent / "target"
TOOLS = TARGET / "bench"


@dataclass(frozen=True)
class Peer:
    name: str
    command: list[str]
    version: Callable[[], str]
    # Counts the jobs that are recorded as done; `%(n)s` is the number that was enqueued.
    finished: str
    # The words in which the system's own record describes the job `%(job)s`; no row means that the record is gone.
    shows: str
    # The beginnings of words that say that a job has ended.
    ended: tuple[str, ...]
    # Does it record the steps of a job?
    steps: bool = False
    # Are jobs started inside the worker, instead of being put into a queue by another process?
    inside: bool = False
    # Is it a variant that differs in speed only?
    speed_only: bool = False
    # What follows the database's address on the command line.
    mode: tuple[str, ...] = ()

    def program(self, url: str) -> list[str]:
        return [*self.command, url, *self.mode]


def node(script: str) -> list[str]:
    folder = TOOLS / "node"
    return [str(folder / "node_modules/node/bin/node"), str(folder / script)]


def python(script: str) -> list[str]:
    return [str(TOOLS / "venv/bin/python"), str(SOURCE / "python" / script)]


def node_version(package: str) -> Callable[[], str]:
    return lambda: json.loads((TOOLS / "node/node_modules" / package / "package.json").read_text())["version"]


def python_version(package: str) -> Callable[[], str]:
    return lambda: importlib.metadata.version(package)


def cargo_version(lock: Path, package: str) -> Callable[[], str]:
    def version() -> str:
        packages = tomllib.loads(lock.read_text())["package"]
        return next(entry["version"] for entry in packages if entry["name"] == package)

    return version


GRAPHILE_FINISHED = "select %(n)s - count(*) from graphile_worker.jobs"
GRAPHILE_SHOWS = """
    select case when locked_at is not null then 'locked by a worker' else 'waiting' end || ', attempts ' || attempts || ' of ' || max_attempts
    from graphile_worker.jobs where id = %(job)s"""
DBOS_FINISHED = "select count(*) from dbos.workflow_status where status = 'SUCCESS'"
DBOS_SHOWS = "select status from dbos.workflow_status where workflow_uuid = %(job)s"
DBOS_ENDED = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY")

RECOUNT = Peer(
    name="Recount",
    command=[str(TARGET / "release/examples/recount-bench")],
    version=cargo_version(SOURCE.parent / "Cargo.lock", "server"),
    finished="select count(*) from jobs where phase = 'finished'",
    shows="""
        select phase || ', e-mail ' || replace(outcome, '_', ' ')
        from jobs join effects on effects.job_id = jobs.id and effects.kind = 'email' where jobs.id = %(job)s::uuid""",
    ended=("cancelled", "finished", "failed"),
    steps=True,
)

PEERS = [
    Peer(
        name="graphile-worker",
        command=node("graphile.mjs"),
        version=node_version("graphile-worker"),
        finished=GRAPHILE_FINISHED,
        shows=GRAPHILE_SHOWS,
        ended=("gone",),
    ),
    Peer(
        name="graphile-worker, batched",
        command=node("graphile.mjs"),
        version=node_version("graphile-worker"),
        finished=GRAPHILE_FINISHED,
        shows=GRAPHILE_SHOWS,
        ended=("gone",),
        speed_only=True,
        mode=("batched",),
    ),
    Peer(
        name="pg-boss",
        command=node("pgboss.mjs"),
        version=node_version("pg-boss"),
        finished="select count(*) from pgboss.job where name = 'bench' and state = 'completed'",
        shows="select state::text from pgboss.job where id = %(job)s::uuid",
        ended=("completed", "cancelled", "failed"),
    ),
    Peer(
        name="DBOS, queued",
        command=python("dbos_peer.py"),
        version=python_version("dbos"),
        finished=DBOS_FINISHED,
        shows=DBOS_SHOWS,
        ended=DBOS_ENDED,
        steps=True,
    ),
    Peer(
        name="DBOS, started in the worker",
        command=python("dbos_peer.py"),
        version=python_version("dbos"),
        finished=DBOS_FINISHED,
        shows=DBOS_SHOWS,
        ended=DBOS_ENDED,
        steps=True,
        inside=True,
        speed_only=True,
        mode=("direct",),
    ),
    Peer(
        name="procrastinate",
        command=python("procrastinate_peer.py"),
        version=python_version("procrastinate"),
        finished="select count(*) from procrastinate_jobs where status = 'succeeded'",
        shows="""
            select status::text || case when abort_requested then ', abort requested' else '' end
            from procrastinate_jobs where id = %(job)s""",
        ended=("succeeded", "failed", "cancelled", "aborted"),
    ),
    Peer(
        name="apalis-postgres",
        command=[str(TOOLS / "apalis/release/apalis-peer")],
        version=cargo_version(SOURCE / "apalis/Cargo.lock", "apalis-postgres"),
        finished="select count(*) from apalis.jobs where status = 'Done'",
        shows="select status from apalis.jobs where id = %(job)s",
        ended=("Done", "Failed", "Killed"),
    ),
]
