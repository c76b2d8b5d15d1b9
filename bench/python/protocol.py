"""The line protocol of bench/README.md for peers written in Python."""

import json
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

Command = dict[str, Any]

# The machine's monotonic clock in nanoseconds: the one clock that all programs of the bench share.
now = time.monotonic_ns


def write(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def say(event: str, key: str) -> None:
    """Reports an event of a job."""
    write({"event": event, "key": key, "at": now()})


counting = threading.Event()


def begin(key: str | None) -> None:
    """Reports that a job's handler runs. Jobs without a key are only counted; the first of them says that the work has begun."""
    if key is not None:
        say("began", key)
    elif not counting.is_set():
        counting.set()
        say("first", "")


def commands() -> Iterator[Command]:
    """The commands on standard input, until it closes."""
    for line in sys.stdin:
        yield json.loads(line)


def serve(obey: Callable[[Command], Any]) -> None:
    """Obeys the commands one after the other."""
    for command in commands():
        try:
            write({"answer": obey(command)})
        except Exception:
            write({"error": traceback.format_exc()})
