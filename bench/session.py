"""One peer at work on a database of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from bench.cluster import Cluster
from bench.peers import Peer
from bench.program import PeerError, Program

# A job's id as the system itself gave it: a call may fail when a number comes back as text.
Id = int | str

# How many jobs a worker may run at a time; the same for every peer that counts them.
SLOTS = 16
# Bounds on waiting, in seconds: for a job to begin, and for a job of three seconds to end.
BEGIN_S = 20
END_S = 10


class Session:
    """A client that enqueues and cancels, a worker, and a connection that reads what the system shows."""

    def __init__(self, peer: Peer, url: str, log: Path) -> None:
        self.peer = peer
        self.command = peer.program(url)
        self.log = log
        self.programs: list[Program] = []
        self.client = self._start()
        self.client.ask("setup")
        self.worker: Program | None = None
        self.record = psycopg.connect(url, autocommit=True)
        self.jobs = 0

    def _start(self) -> Program:
        program = Program(self.command, self.log)
        self.programs.append(program)
        return program

    def work(self, **terms: int) -> Program:
        """Starts a worker, next to or after one that was killed."""
        self.worker = self._start()
        self.worker.ask("work", slots=SLOTS, **terms)
        return self.worker

    @property
    def entrance(self) -> Program:
        """The program through which jobs come in."""
        return self.worker if self.peer.inside else self.client

    def enqueue(self, kind: str) -> tuple[str, Id, int]:
        """A new job's key and id, and when it was handed in (nanoseconds)."""
        self.jobs += 1
        key = f"{kind}-{self.jobs}"
        answer = self.entrance.ask("enqueue", kind=kind, key=key)
        return key, answer["job"], answer["at"]

    def begin(self, kind: str) -> tuple[str, Id]:
        """Enqueues a job and waits until its handler runs."""
        key, job, _ = self.enqueue(kind)
        if self.worker.wait("began", key, BEGIN_S) is None:
            raise PeerError(f"{self.peer.name}: a job did not begin within {BEGIN_S} s")
        return key, job

    def cancel(self, key: str, job: Id) -> tuple[str | None, int]:
        """What the cancel's call answered (None: there is no such call), and when it was made (nanoseconds)."""
        answer = self.client.ask("cancel", key=key, job=job)
        return answer["said"], answer["at"]

    def finished(self, n: int) -> int:
        return self.record.execute(self.peer.finished, {"n": n}).fetchone()[0]

    def shows(self, job: Id) -> str:
        """The words of the system's own record about the job."""
        row = self.record.execute(self.peer.shows, {"job": job}).fetchone()
        return row[0] if row else "gone"

    def close(self) -> None:
        for program in self.programs:
            program.kill()
        self.record.close()


@contextmanager
def session(peer: Peer, cluster: Cluster, logs: Path) -> Iterator[Session]:
    with cluster.database("bench") as url:
        opened = Session(peer, url, logs / f"{peer.name}.log")
        try:
            yield opened
        finally:
            opened.close()
