"""Many people watching jobs at once, and a small machine's SQLite at its limit: memory, processor time, and how long people wait.

`target/release/recount serve` runs as a process of its own; the watchers are streams of server-sent events from this one, which takes
processor time from it as browsers would not.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import report
from bench.cluster import cluster
from bench.peers import SOURCE, TARGET, TOOLS
from bench.report import Conditions

PROGRAM = TARGET / "release/recount"
PERSON = "admin@example.org"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# How long the open streams are left alone, for what they cost while nothing happens.
REST_S = 20
# No wait for the server is longer.
PATIENCE_S = 120
# How long the model takes for its answer, and the pieces in which it comes.
MODEL_S = 10
PIECES = 50
AT_WORK = 20
CANCELS = 5
PAGES = 50

ANSWER = "## Meeting\n- The team agreed on a new plan for the garden, which costs 900 euros. [1:1]\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.watch", description=__doc__)
    parser.add_argument("--people", type=int, default=1000, help="people who watch at the same time")
    parser.add_argument("--jobs", type=int, nargs="*", default=[1, 50], help="jobs that they watch")
    parser.add_argument("--office", type=int, default=200, help="people who watch while SQLite has 20 jobs at work")
    options = parser.parse_args()
    (TOOLS / "log").mkdir(parents=True, exist_ok=True)
    with cluster() as running:
        conditions = Conditions.now(running)
        lines = [
            "| database | people | jobs | server's memory | processor time at rest | first event p50 | all have one | the streams' end | processor time of it |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for database in ["SQLite", "PostgreSQL"]:
            for jobs in options.jobs:
                with ExitStack() as stack:
                    url = stack.enter_context(running.database("watch")) if database == "PostgreSQL" else None
                    server = stack.enter_context(serving(url))
                    lines.append(f"| {database} {asyncio.run(crowd(server, options.people, jobs))}")
                    print(lines[-1], file=sys.stderr, flush=True)
        office_lines = asyncio.run(office(options.office))
    text = f"# Recount's watchers\n\n{report.machine()}. {report.conditions([conditions])}\n\n"
    text += "\n".join(lines) + f"\n\nSQLite, {AT_WORK} jobs at work, {options.office} people watching:\n\n" + "\n".join(office_lines) + "\n"
    print(text)
    (TOOLS / "watch.md").write_text(text)
    return 0


@dataclass
class Server:
    """A running `recount serve`, with a token of an admin."""

    pid: int
    port: int
    token: str

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1000

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(") ", 1)[1].split(" ")
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    async def request(self, method: str, path: str, body: dict | None = None) -> tuple[int, bytes]:
        """A request on a connection of its own; the status and the body."""
        reader, writer = await self.send(method, path, body)
        head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return int(head.split(b" ", 2)[1]), rest

    async def send(self, method: str, path: str, body: dict | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        content = json.dumps(body).encode() if body is not None else b""
        head = [
            # HTTP/1.0: the answer is not chunked, and its end is the connection's end.
            f"{method} {path} HTTP/1.0",
            f"Host: 127.0.0.1:{self.port}",
            f"Authorization: Bearer {self.token}",
            f"Idempotency-Key: {uuid.uuid4()}",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
        ]
        writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + content)
        await writer.drain()
        return reader, writer

    async def order(self, hold: str) -> str:
        order = {"month": "2026-06", "sources": ["Docs"], "recipients": ["anna@example.org"], "title": "Bench", "hold": hold}
        status, body = await self.request("POST", "/api/v1/jobs", order)
        if status != 201:
            raise RuntimeError(f"no job: {status} {body!r}")
        return json.loads(body)["id"]

    async def job(self, id: str) -> dict:
        return json.loads((await self.request("GET", f"/api/v1/jobs/{id}"))[1])


@contextmanager
def serving(database: str | None, settings: str = "") -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="recount-bench-") as name, (TOOLS / "log/watch.log").open("ab") as log:
        folder = Path(name)
        documents = json.dumps(str(SOURCE / "documents"))
        first = f"database = {json.dumps(database)}\n" if database else ""
        (folder / "recount.toml").write_text(f'{first}{settings}\n[[sources]]\nname = "Docs"\npath = {documents}\n')

        def recount(*words: str, given: str = "") -> str:
            command = [PROGRAM, *words, "--data", name]
            return subprocess.run(command, input=given, stdout=subprocess.PIPE, stderr=log, text=True, check=True).stdout

        recount("user", "add", "--email", PERSON, "--role", "admin", given="a long enough password\n")
        token = recount("token", "create", "--email", PERSON).strip()
        command = [PROGRAM, "serve", "--data", name, "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            port = int(process.stdout.readline().rsplit(":", 1)[1])
            yield Server(process.pid, port, token)
        finally:
            process.kill()
            process.wait()


@dataclass
class Watcher:
    """One stream of events."""

    job: str
    # When each event about a change came, and when the stream ended (seconds of the monotonic clock).
    changes: list[float] = field(default_factory=list)
    ended: float | None = None

    async def watch(self, server: Server) -> None:
        reader, writer = await server.send("GET", f"/api/v1/jobs/{self.job}/events")
        while line := await reader.readline():
            if line == b"event: job\n":
                self.changes.append(time.monotonic())
        self.ended = time.monotonic()
        writer.close()


async def crowd(server: Server, people: int, jobs: int) -> str:
    """Jobs that are held, `people` who watch them, and then the e-mails of all go out at the same time."""
    empty = server.memory_mb()
    ids = [await server.order("approval") for _ in range(jobs)]
    await until(lambda: all_are(server, ids, "hold"))
    watchers = [Watcher(ids[number % jobs]) for number in range(people)]
    streams = [asyncio.create_task(each.watch(server)) for each in watchers]
    await until(lambda: true(all(each.changes for each in watchers)))
    before = server.cpu_s()
    await asyncio.sleep(REST_S)
    rest = (server.cpu_s() - before) / REST_S
    memory = server.memory_mb()
    before, sent = server.cpu_s(), time.monotonic()
    await asyncio.gather(*(server.request("PUT", f"/api/v1/jobs/{id}/approval") for id in ids))
    await asyncio.wait_for(asyncio.gather(*streams), PATIENCE_S)
    used = server.cpu_s() - before
    first = sorted(next(at for at in each.changes if at > sent) - sent for each in watchers)
    ends = max(each.ended for each in watchers) - sent
    peak = max(memory, server.memory_mb())
    events = sum(len([at for at in each.changes if at > sent]) for each in watchers)
    cells = [
        f"{people:,}",
        f"{jobs:,}",
        f"{empty:.0f} → {peak:.0f} MB",
        f"{rest * 100:.1f} % of a core",
        f"{statistics.median(first) * 1000:,.0f} ms",
        f"{first[-1] * 1000:,.0f} ms",
        f"{ends * 1000:,.0f} ms",
        f"{used:.2f} s for {events:,} events",
    ]
    return f"| {' | '.join(cells)} |"


async def office(people: int) -> list[str]:
    """A model that takes its time, so that all jobs are at work together; people watch them, open pages and cancel some."""
    model = await asyncio.start_server(answer_slowly, "127.0.0.1", 0)
    port = model.sockets[0].getsockname()[1]
    settings = f"""
[model]
provider = "open-ai-compatible"
model = "slow"
base_url = "http://127.0.0.1:{port}/v1/"
[worker]
concurrency = {AT_WORK}
per_person = {AT_WORK}
"""
    with serving(None, settings) as server:
        ids = [await server.order("none") for _ in range(AT_WORK)]
        watchers = [Watcher(ids[number % len(ids)]) for number in range(people)]
        streams = [asyncio.create_task(each.watch(server)) for each in watchers]
        await until(lambda: all_are(server, ids, "summarize"))
        before, began = server.cpu_s(), time.monotonic()
        pages = [await timed(server.request("GET", path)) for _ in range(PAGES) for path in (f"/jobs/{ids[0]}", "/jobs")]
        cancels, told = [], []
        for id in ids[:CANCELS]:
            pressed = time.monotonic()
            cancels.append(await timed(server.request("PUT", f"/api/v1/jobs/{id}/cancellation")))
            mine = [each for each in watchers if each.job == id]
            await until(lambda: true(all(each.ended for each in mine)))
            told.extend(each.ended - pressed for each in mine)
        memory = server.memory_mb()
        await asyncio.wait_for(asyncio.gather(*streams), PATIENCE_S)
        share = (server.cpu_s() - before) / (time.monotonic() - began)
        phases = [(await server.job(id))["phase"] for id in ids]
    model.close()
    return [
        "| what | p50 | longest |",
        "|---|---|---|",
        row("a page, as it comes", pages),
        row("Cancel → answered", cancels),
        row("Cancel → accounted for, and everybody who watches told", told),
        "",
        f"{phases.count('finished')} jobs finished and {phases.count('cancelled')} were cancelled. "
        f"The server had {memory:.0f} MB and used {share * 100:.0f} % of a core.",
    ]


def row(what: str, seconds: list[float]) -> str:
    return f"| {what} | {statistics.median(seconds) * 1000:.1f} ms | {max(seconds) * 1000:.1f} ms |"


async def timed(request: Awaitable[tuple[int, bytes]]) -> float:
    before = time.monotonic()
    status, body = await request
    if status != 200:
        raise RuntimeError(f"{status} {body[:200]!r}")
    return time.monotonic() - before


async def all_are(server: Server, ids: Iterable[str], step: str) -> bool:
    """Whether the step is running in each of the jobs."""
    for id in ids:
        steps = {each["kind"]: each["state"] for each in (await server.job(id))["steps"]}
        if steps.get(step) != "running":
            return False
    return True


async def true(value: bool) -> bool:
    return value


async def until(condition) -> None:
    end = time.monotonic() + PATIENCE_S
    while not await condition():
        if time.monotonic() > end:
            raise RuntimeError("what was waited for did not come")
        await asyncio.sleep(0.02)


async def answer_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A model server as OpenAI-compatible ones are, which streams one answer in pieces."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
    size = -(-len(ANSWER) // PIECES)
    pieces = [{"delta": {"content": ANSWER[at : at + size]}} for at in range(0, len(ANSWER), size)]
    try:
        for piece in [*pieces, {"delta": {}, "finish_reason": "stop"}]:
            writer.write(f"data: {json.dumps({'id': 'answer', 'choices': [{'index': 0, **piece}]})}\n\n".encode())
            await writer.drain()
            await asyncio.sleep(MODEL_S / PIECES)
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()
    except ConnectionError:
        # The job was cancelled.
        pass
    writer.close()


if __name__ == "__main__":
    sys.exit(main())
