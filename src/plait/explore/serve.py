"""Server of the explorer: opens a run and serves pages until Ctrl-C."""

import asyncio
import errno
import logging
import secrets
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plait.errors import ParameterError, PlaitError
from plait.explore.site import Site
from plait.explore.whatif import Trials
from plait.explore.worker import seal
from plait.report.report_data import ReportData
from plait.result import Fit, load
from plait.storage.run_folder import manifest

Measure = Callable[[Fit], Mapping[str, Any]]


def open_site(
    run: Path, *, token: str, folder: Path | None = None, limit: float = 300.0, measure: Measure | None = None
) -> Site:
    """Site of a run. `folder`: data of what-ifs; `limit`: seconds per what-if; `measure`: fields of `ReportData` by a
    test.
    """
    header, fit = manifest(run), load(run)
    report_data = ReportData(fit, str(run), header, **({} if measure is None else measure(fit)))
    trials = Trials(str(run), None if folder is None else str(folder), limit, seal(header))
    return Site(report_data, run, token, trials, folder)


MISSING = "Install them: pip install 'tensorplait[explore]'."
SHUTDOWN_SECONDS = 3  # for responses in progress
REQUEST_SECONDS = 10.0  # from connection or first byte of a request to the last: a form has at most 64 kB


def serve(
    run: Path, *, host: str, port: int, folder: Path | None, limit: float, say: Callable[[str], None],
    measure: Measure | None = None,
) -> None:  # fmt: skip
    """Serve a run until Ctrl-C. `port`: 0 for a free one; `limit`: seconds per what-if; `say`: receives the address."""
    _needed()
    from plait.explore.app import build

    if folder is not None and not folder.is_dir():
        raise ParameterError(
            f"the folder {str(folder)!r} does not exist.", hint="Give the folder of the config's files with --data."
        )
    with listen(host, port) as listening:
        site = open_site(run, folder=folder, limit=limit, token=secrets.token_urlsafe(32), measure=measure)
        site.indices  # noqa: B018 (made before the first search)
        sys.setswitchinterval(0.001)  # keeps the server responsive while pages are made
        say(_address(host, listening))
        try:
            with quiet_end(server_of(build(site, host))) as server:
                server.run(sockets=[listening])
        except KeyboardInterrupt:  # the normal end
            return
        finally:
            site.trials.close()


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address; a used one is an error with a hint."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except (socket.gaierror, UnicodeError):
        raise ParameterError(f"this machine does not have the address {host!r}.", hint="Remove --host.") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise _unbound(error, host, port) from None
    return listener


def _unbound(error: OSError, host: str, port: int) -> ParameterError:
    if error.errno == errno.EADDRINUSE:
        return ParameterError(f"port {port} of {host} is in use.",
                            hint="Use a free port with --port 0.")  # fmt: skip
    if error.errno == errno.EACCES:
        return ParameterError(f"port {port} requires administrator rights.", hint="Use a free port with --port 0.")
    return ParameterError(f"the server cannot listen on {host}, port {port}: {error.strerror}.",
                        hint="Remove --host and --port.")  # fmt: skip


def _address(host: str, listening: socket.socket) -> str:
    port = listening.getsockname()[1]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}/"


def server_of(app: Any, request_seconds: float = REQUEST_SECONDS) -> Any:
    """Server without a server header; `request_seconds`: deadline of a request."""
    import uvicorn

    config = uvicorn.Config(
        app, http=_protocol(request_seconds),
        log_level="error", access_log=False, server_header=False, ws="none", lifespan="on", proxy_headers=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS, limit_concurrency=500, h11_max_incomplete_event_size=65_536,
    )  # fmt: skip
    return uvicorn.Server(config)


def _protocol(seconds: float) -> Any:
    """HTTP protocol of uvicorn with a deadline for requests, against unfinished ones."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Protocol(H11Protocol):
        deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self.unwatch()

        def watch(self) -> None:
            """Start the deadline with a request, and end it with its last byte."""
            if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
                self.unwatch()
            elif self.deadline is None:
                self.deadline = self.loop.call_later(seconds, self.transport.abort)

        def unwatch(self) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
                self.deadline = None

    return Protocol


@contextmanager
def quiet_end(server: Any) -> Iterator[Any]:
    """A server that does not log responses aborted by its shutdown."""

    def passes(record: logging.LogRecord) -> bool:
        return not server.should_exit

    logger = logging.getLogger("uvicorn.error")
    logger.addFilter(passes)
    try:
        yield server
    finally:
        logger.removeFilter(passes)


def _needed() -> None:
    """Refuse if packages of the explorer are not installed."""
    try:
        import jinja2  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise PlaitError(f"the explorer needs {error.name}, which is not installed.", hint=MISSING) from None
