"""A real PostgreSQL server in a temporary folder, for as long as a test session lasts."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PASSWORD = "s3cret!/@word"  # with characters that a URL must escape
ESCAPED = "s3cret%21%2F%40word"


class NoServer(Exception):
    """Why no server could be started."""


@dataclass(frozen=True)
class Server:
    """Where the server listens."""

    port: int
    folder: str

    def url(self, password: str = ESCAPED, database: str = "postgres", host: str = "127.0.0.1") -> str:
        return f"postgresql://plait:{password}@{host}:{self.port}/{database}"


def program(name: str) -> str:
    """The path of a program of PostgreSQL; Debian keeps them out of PATH."""
    packaged = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    found = shutil.which(name) or next(map(str, packaged), None)
    if found is None:
        raise NoServer(f"PostgreSQL's {name} is not installed")
    return found


def user() -> str | None:
    """Whom to run the server as: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return None
    import pwd

    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    raise NoServer("PostgreSQL does not run as root, and there is no other user")


def run(command: list[str], folder: str, owner: str | None) -> None:
    environment = {**os.environ, "LC_ALL": "C", "HOME": folder}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, user=owner, capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoServer(f"{Path(command[0]).name} cannot be run: {error}") from error
    if done.returncode:
        log = Path(folder, "log")
        said = log.read_text() if log.exists() else done.stderr
        raise NoServer(f"{Path(command[0]).name} failed: {said.strip()[-300:]}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server() -> Iterator[Server]:
    """Start a server; raises NoServer, with the reason, where that cannot be."""
    initdb, control, owner = program("initdb"), program("pg_ctl"), user()
    program("postgres")
    folder = tempfile.mkdtemp(prefix="plait-pg-")  # short: the path of a socket has at most 107 bytes
    try:
        Path(folder, "password").write_text(PASSWORD)
        if owner:
            shutil.chown(folder, owner)
            shutil.chown(Path(folder, "password"), owner)
        data = str(Path(folder, "data"))
        options = ["--auth=scram-sha-256", "--username=plait", "--pwfile=password", "--encoding=UTF8", "--locale=C"]
        run([initdb, "-D", data, "--no-sync", *options], folder, owner)
        port = free_port()
        settings = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off -c shared_buffers=16MB"
        run(
            [control, "-D", data, "-l", str(Path(folder, "log")), "-w", "-t", "30", "-o", settings, "start"],
            folder,
            owner,
        )
        try:
            yield Server(port, folder)
        finally:
            run([control, "-D", data, "-m", "immediate", "-w", "stop"], folder, owner)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
