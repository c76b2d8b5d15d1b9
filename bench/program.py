"""One running program of a peer, driven by the lines that README.md describes."""

import json
import os
import queue
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

# No command takes longer; a program that does is stuck.
PATIENCE_S = 120


class PeerError(Exception):
    """A peer answered with an error, or not at all."""


class Program:
    """A program in a process group of its own, so that ending it leaves none of its children behind."""

    def __init__(self, command: list[str], log: Path) -> None:
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            )
        self.name = Path(log).stem
        self.answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self.events: dict[tuple[str, str], list[int]] = {}
        self.arrived = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self.process.stdout:
            message = json.loads(line)
            if "event" not in message:
                self.answers.put(message)
                continue
            with self.arrived:
                self.events.setdefault((message["event"], message["key"]), []).append(message["at"])
                self.arrived.notify_all()
        self.answers.put({"error": "the program ended"})

    def ask(self, command: str, **parameters: Any) -> Any:
        """Sends a command and returns its answer."""
        try:
            self.process.stdin.write(json.dumps({"do": command, **parameters}) + "\n")
            self.process.stdin.flush()
            answer = self.answers.get(timeout=PATIENCE_S)
        except (OSError, queue.Empty) as error:
            raise PeerError(f"{self.name}: no answer to {command}: {error}") from error
        if "error" in answer:
            raise PeerError(f"{self.name}: {command}: {answer['error']}")
        return answer["answer"]

    def times(self, event: str, key: str) -> list[int]:
        """When the event was reported for the job, in nanoseconds of the monotonic clock."""
        with self.arrived:
            return list(self.events.get((event, key), []))

    def wait(self, event: str, key: str, seconds: float) -> int | None:
        """The time at which the event was first reported, or None if it was not in time."""
        until = time.monotonic() + seconds
        with self.arrived:
            while (event, key) not in self.events:
                left = until - time.monotonic()
                if left <= 0 or not self.arrived.wait(left):
                    return None
            return self.events[event, key][0]

    def kill(self) -> None:
        """SIGKILL for the program and everything that it started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
