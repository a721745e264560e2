"""`plait explore` as a process: where it listens, what it prints, and how it ends."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

import plait
from plait.cli import app as command
from plait.explore.guard import own_names
from plait.explore.serve import listen
from tests.support.explore_run import listening_server

START = [sys.executable, "-c", "from plait.cli import app; app()", "explore"]
LINUX = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="no /proc/net/tcp to look into")


class Process:
    """`plait explore` in a process group of its own."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen([*START, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        start_new_session=True)  # fmt: skip
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+:(\d+)/", line)
        assert found, (line, self.process.stderr.read() if self.process.poll() is not None else "")
        self.url, self.port = found[0], int(found[1])

    def end(self, group: bool = False) -> tuple[int, str]:
        """Ctrl-C; in a terminal all processes of the group get it."""
        if group:
            os.killpg(self.process.pid, signal.SIGINT)
        else:
            self.process.send_signal(signal.SIGINT)
        out, said = self.process.communicate(timeout=30)
        return self.process.returncode, out + said


@pytest.fixture
def process(run):
    started = []

    def start(*arguments: str) -> Process:
        started.append(Process(str(run), *arguments))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate()


def _listening(port: int) -> set[str]:
    """The hexadecimal addresses that listen at a port, by the kernel."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:] if Path(table).exists() else ():
            _, local, _, state, *_ = line.split()
            address, _, at = local.partition(":")
            if state == "0A" and int(at, 16) == port:
                found.add(address)
    return found


@pytest.mark.budget(5)
@LINUX
def test_it_listens_on_loopback_only_and_ends_cleanly(process):
    own = process()
    assert httpx.get(own.url, trust_env=False).status_code == 200
    assert _listening(own.port) == {"0100007F"}  # 127.0.0.1
    code, said = own.end()
    assert code == 0
    assert "Traceback" not in said
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", own.port), timeout=5)


@pytest.mark.thorough
@LINUX
def test_another_address_gives_a_warning(process):
    own = process("--host", "0.0.0.0")
    line = own.process.stdout.readline()
    assert "no password is set" in line
    assert _listening(own.port) == {"00000000"}
    assert httpx.get(own.url, trust_env=False).status_code == 200
    for host, status in (("192.0.2.7", 200), ("evil.example", 400), (socket.gethostname(), 200)):
        assert httpx.get(own.url, trust_env=False, headers={"Host": f"{host}:{own.port}"}).status_code == status
    assert own.end()[0] == 0


@pytest.mark.thorough
def test_ctrl_c_ends_it_while_a_what_if_runs(process, run):
    own = process()
    page = httpx.get(f"{own.url}relation/visits/cell?user=x+y&place=1", trust_env=False).text
    fields = dict(
        re.findall(r'name="([^"]+)" value="([^"]*)"', page[page.index('class="action"') :].split("</form>")[0])
    )
    answer = httpx.post(f"{own.url}whatif", data=fields, trust_env=False)
    assert answer.status_code == 303, answer.text
    until = time.monotonic() + 30
    while not (workers := _children(own.process.pid)) and time.monotonic() < until:
        time.sleep(0.02)
    code, said = own.end(group=True)
    assert code == 0
    assert "Traceback" not in said
    for worker in workers:
        assert not Path(f"/proc/{worker}").exists() or "Z" in Path(f"/proc/{worker}/stat").read_text().split()[2]


@pytest.mark.thorough
@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_ctrl_c_ends_it_while_a_client_is_slow(process, twice):
    own = process()
    with socket.create_connection(("127.0.0.1", own.port)) as client:
        client.sendall(b"POST /whatif HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\na")
        assert httpx.get(own.url, trust_env=False).status_code == 200
        if twice:
            own.process.send_signal(signal.SIGINT)
            time.sleep(0.3)
        code, said = own.end()
    assert code == 0
    assert said == ""


def _children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parts = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(parts[1]) == pid:
            found.append(int(stat.parent.name))
    return found


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--port", "TAKEN"], ["is in use", "--port 0"]),
        (["--data", "nothing"], ["does not exist"]),
        (["--host", "no.such.host.invalid"], ["does not have the address"]),
        (["--host", "192.0.2.1"], ["the server cannot listen"]),
        (["without uvicorn"], ["needs uvicorn", "tensorplait[explore]"]),
    ],
)
def test_a_server_that_cannot_start_is_refused(run, monkeypatch, options, words):
    if options == ["without uvicorn"]:
        monkeypatch.setitem(sys.modules, "uvicorn", None)
        options = []
    with listen("127.0.0.1", 0) as taken:
        options = [str(taken.getsockname()[1]) if one == "TAKEN" else one for one in options]
        done = CliRunner().invoke(command, ["explore", str(run), *options])
    assert done.exit_code == 2, done.output
    assert all(word in done.output for word in words)


@pytest.mark.thorough
def test_json_has_the_address(run):
    process = subprocess.Popen([*START, str(run), "--json"], stdout=subprocess.PIPE, text=True)
    try:
        found = json.loads("".join(process.stdout.readline() for _ in range(5)))
        assert found["this_computer_only"] is True
        assert httpx.get(found["address"], trust_env=False).status_code == 200
    finally:
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[0] == ""


async def echo(scope, receive, send):
    """An application that reads a body, and answers how long it is."""
    if scope["type"] == "lifespan":
        for event in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{event}.complete"})
        return
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"%d" % size})


HALF = {
    "silent": b"",
    "headers": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    "body": b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\na",
    "second": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET / HTTP/1.1\r\n",
}


@pytest.mark.parametrize("sent", HALF.values(), ids=HALF)
def test_connections_with_half_a_request_are_closed(sent):
    with listening_server(echo, request_seconds=0.3) as (server, address), ExitStack() as opened:
        server.config.limit_concurrency = 5
        server.config.timeout_keep_alive = 1
        clients = [opened.enter_context(socket.create_connection(address, timeout=20)) for _ in range(8)]
        for client in clients:
            client.sendall(sent)
        for client in clients:
            with suppress(ConnectionResetError):
                while client.recv(1000):
                    pass
        url = f"http://{address[0]}:{address[1]}/"
        assert httpx.post(url, content=b"abc", trust_env=False).text == "3"


def test_a_trickle_of_bytes_does_not_extend_a_request():
    with (
        listening_server(echo, request_seconds=0.3) as (_, address),
        socket.create_connection(address, timeout=20) as client,
    ):
        client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        client.settimeout(0.02)

        def trickle():
            for _ in range(1000):
                client.sendall(b"x")
                with suppress(TimeoutError):
                    client.recv(1)

        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            trickle()


def test_slow_answers_and_kept_connections_outlive_the_limit():
    async def slow(scope, receive, send):
        if scope["type"] == "http":
            await asyncio.sleep(0.3)
        await echo(scope, receive, send)

    with listening_server(slow, request_seconds=0.1) as (_, address), httpx.Client(trust_env=False) as client:
        for _ in range(2):
            assert client.get(f"http://{address[0]}:{address[1]}/").text == "0"


def test_names_of_this_machine_depend_on_where_it_listens():
    assert own_names("127.0.0.1") == {"localhost", "127.0.0.1", "::1"}
    assert socket.gethostname().lower() in own_names("0.0.0.0")


@pytest.mark.thorough
def test_a_run_in_one_file_is_explored(run, tmp_path):
    plait.load(run).save(tmp_path / "run.plait")
    own = Process(str(tmp_path / "run.plait"))
    try:
        assert httpx.get(f"{own.url}components", trust_env=False).status_code == 200
    finally:
        assert own.end()[0] == 0
