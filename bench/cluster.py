"""A PostgreSQL cluster of the bench's own, with the settings that `initdb` gives it (so with full durability), on loopback."""

import os
import pwd
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg


class Cluster:
    """A running cluster; databases in it are made afresh for each measurement, so that no peer meets another one's rows."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    @contextmanager
    def database(self, name: str) -> Iterator[str]:
        """The address of a new database, which is dropped at the end."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as admin:
            admin.execute(f'create database "{name}"')
            # What a measurement before this one left to be written is written now, not during the next one.
            admin.execute("checkpoint")
        try:
            yield self.url(name)
        finally:
            with psycopg.connect(self.url("postgres"), autocommit=True) as admin:
                admin.execute(f'drop database "{name}" with (force)')

    def settings(self) -> dict[str, str]:
        """The settings that decide what a commit costs."""
        names = ["server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers"]
        with psycopg.connect(self.url("postgres")) as admin:
            return {name: admin.execute(f"show {name}").fetchone()[0] for name in names}

    def commit_ms(self) -> float:
        """What one small commit takes just now: the median of a hundred, in milliseconds."""
        trials = []
        with self.database("commits") as url, psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create table commits (at timestamptz)")
            for _ in range(100):
                before = time.monotonic()
                connection.execute("insert into commits values (now())")
                trials.append((time.monotonic() - before) * 1000)
        return statistics.median(trials)

    def file_system(self) -> str:
        """The kind of file system below the data: on a memory file system durability would cost nothing."""
        return run(["stat", "--file-system", "--format=%T", str(self.folder)]).strip()


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Starts a cluster in a temporary folder and removes it at the end."""
    programs = Path(run(["pg_config", "--bindir"]).strip())
    folder = Path(tempfile.mkdtemp(prefix="recount-bench-"))
    data = folder / "data"
    port = free_port()
    as_user = unprivileged(folder)
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
    control = [*as_user, str(programs / "pg_ctl"), "-D", str(data), "-w", "-t", "60"]
    try:
        run([*as_user, str(programs / "initdb"), "-D", str(data), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"])
        run([*control, "-l", str(folder / "log"), "-o", options, "start"])
        try:
            yield Cluster(folder, port)
        finally:
            run([*control, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def unprivileged(folder: Path) -> list[str]:
    """What to put before a command so that it does not run as root, which PostgreSQL refuses; the folder is handed to that user."""
    if os.geteuid() != 0:
        return []
    postgres = pwd.getpwnam("postgres")
    os.chown(folder, postgres.pw_uid, postgres.pw_gid)
    return ["setpriv", f"--reuid={postgres.pw_uid}", f"--regid={postgres.pw_gid}", "--clear-groups", "--"]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run(command: list[str]) -> str:
    """The output of a command that must succeed. A file takes the output: servers started by the command would hold a pipe open."""
    with tempfile.TemporaryFile("w+") as output:
        # The folder may be closed to the user that the command runs as.
        code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd="/", timeout=120).returncode
        output.seek(0)
        text = output.read()
    if code != 0:
        raise RuntimeError(f"{command[0]} ended with {code}: {text}")
    return text
