"""DBOS as a peer of the bench: workflows of four recorded steps, like Recount's jobs.

With the second argument "direct" workflows are started inside the worker instead of being put into a queue; that is DBOS' fastest way,
and then the worker itself is asked to fill and to enqueue.
"""

import os
import sys
import time
from typing import Any

from dbos import DBOS, DBOSClient, DBOSConfig
from dbos import error as dbos_error

from protocol import Command, begin, now, say, serve

QUEUE = "bench"
URL = sys.argv[1]
DIRECT = sys.argv[2:] == ["direct"]
# What the next step of a cancelled workflow raises. A cancel takes the workflow from its queue and thereby from its worker, so that a
# queued one meets the latter.
TOLD = (dbos_error.DBOSWorkflowCancelledError, dbos_error.DBOSWorkflowConflictIDError)
CONFIG: DBOSConfig = {"name": "bench", "system_database_url": URL, "log_level": "CRITICAL", "application_version": "1", "executor_id": "bench"}


@DBOS.step()
def first(key: str | None) -> None:
    begin(key)


@DBOS.step()
def nothing() -> None:
    pass


@DBOS.step()
def moment() -> None:
    time.sleep(0.01)


@DBOS.step()
def deaf(key: str) -> None:
    time.sleep(3)
    say("ended", key)


@DBOS.workflow()
def job(kind: str, key: str | None) -> None:
    first(key)
    if kind == "patient":
        wait_for_cancel(key)
    if kind == "stubborn":
        deaf(key)
    else:
        nothing()
    nothing()
    nothing()


def wait_for_cancel(key: str) -> None:
    """DBOS tells a workflow at its next step, so a patient workflow takes one short step after the other."""
    until = time.monotonic() + 10
    try:
        while time.monotonic() < until:
            moment()
    except TOLD:
        say("told", key)
        raise


class Peer:
    def __init__(self) -> None:
        self.outside: DBOSClient | None = None

    def client(self) -> DBOSClient:
        if self.outside is None:
            self.outside = DBOSClient(system_database_url=URL)
        return self.outside

    def start(self, kind: str, key: str | None) -> str:
        if DIRECT:
            return DBOS.start_workflow(job, kind, key).workflow_id
        return self.client().enqueue({"queue_name": QUEUE, "workflow_name": "job"}, kind, key).workflow_id

    def obey(self, command: Command) -> Any:
        match command:
            case {"do": "setup"}:
                # Not by launching: a launched process takes jobs from the queues itself.
                DBOS.migrate(URL)
            case {"do": "work", "slots": slots}:
                DBOS(config=CONFIG)
                DBOS.launch()
                if not DIRECT:
                    DBOS.register_queue(QUEUE, worker_concurrency=slots, polling_interval_sec=0.02)
            case {"do": "fill", "n": n}:
                for _ in range(n):
                    self.start("nothing", None)
            case {"do": "enqueue", "kind": kind, "key": key}:
                self.client()
                at = now()
                return {"at": at, "job": self.start(kind, key)}
            case {"do": "cancel", "job": id}:
                client = self.client()
                at = now()
                return {"at": at, "said": str(client.cancel_workflow(id))}
        return None


if __name__ == "__main__":
    serve(Peer().obey)
    os._exit(0)
