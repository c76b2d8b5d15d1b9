"""procrastinate as a peer of the bench: one asynchronous task a job, which is its documented way to speed."""

import asyncio
import sys
import threading
from collections.abc import Awaitable
from typing import Any

import procrastinate

from protocol import Command, begin, now, say, serve

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=sys.argv[1], min_size=1, max_size=20))


@app.task(queue="bench", name="job")
async def job(kind: str, key: str | None) -> None:
    begin(key)
    if kind == "patient":
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            say("told", key)
            raise
    if kind == "stubborn":
        await deaf()
        say("ended", key)


async def deaf() -> None:
    """Works for three seconds whatever it is told, like a call that nothing can interrupt."""
    work = asyncio.ensure_future(asyncio.sleep(3))
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            continue


class Peer:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.wait(app.open_async())
        self.worker: Any = None

    def wait(self, what: Awaitable[Any]) -> Any:
        async def awaited() -> Any:
            return await what

        return asyncio.run_coroutine_threadsafe(awaited(), self.loop).result(60)

    def obey(self, command: Command) -> Any:
        match command:
            case {"do": "setup"}:
                self.wait(app.schema_manager.apply_schema_async())
            case {"do": "work", "slots": slots}:
                worker = app.run_worker_async(queues=["bench"], concurrency=slots, install_signal_handlers=False, wait=True)
                self.worker = asyncio.run_coroutine_threadsafe(worker, self.loop)
            case {"do": "fill", "n": n}:
                self.wait(job.batch_defer_async(*[{"kind": "nothing", "key": None}] * n))
            case {"do": "enqueue", "kind": kind, "key": key}:
                at = now()
                return {"at": at, "job": self.wait(job.defer_async(kind=kind, key=key))}
            case {"do": "cancel", "job": id}:
                at = now()
                return {"at": at, "said": str(self.wait(app.job_manager.cancel_job_by_id_async(id, abort=True)))}
        return None


if __name__ == "__main__":
    serve(Peer().obey)
