"""Access control of the explorer: allowed hosts, tokens, origins and sizes of requests.

A page of another site can make a browser send requests here. It cannot choose their Host header, so only own host names
are answered (against DNS rebinding); it cannot read our pages, so it does not know the token that every post needs; and
a post must have our Origin.
"""

import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plait.explore.request import Refused


def own_names(host: str) -> set[str]:
    """Host names of this machine."""
    names = {"localhost", "127.0.0.1", "::1", host.strip("[]").lower()}
    return names if is_loopback(host) else {*names, socket.gethostname().lower()}


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_address(name: str) -> bool:
    """Whether a host is an IP address, which cannot be rebound."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


MAX_ADDRESS_BYTES = 8_000
MAX_BODY_BYTES = 64_000
MAX_FIELDS = 100
TOKEN = "token"
TOKEN_HEADER = "x-plait-token"

# Posts of our own pages need an Origin, which browsers hide under "no-referrer"; other sites get no referrer.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Refuse = Callable[[Scope, Refused], ASGIApp]


class Guard:
    """The application behind access control. `host`: address it is bound to; `refuse`: makes the error page."""

    def __init__(self, app: ASGIApp, *, host: str, token: str, refuse: Refuse) -> None:
        self.app, self.token, self.refuse = app, token, refuse
        self.names, self.anywhere = own_names(host), not is_loopback(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _with_headers(send)
        try:
            self._check_host(Headers(scope=scope))
            _check_address(scope)
            if scope["method"] not in ("GET", "HEAD"):
                await self._check_post(scope, receive)
        except Refused as refused:
            await self.refuse(scope, refused)(scope, receive, answer)
            return
        await self.app(scope, receive, answer)

    def _check_host(self, headers: Headers) -> None:
        name = _host_name(headers.getlist("host"))
        if name is None or not (name in self.names or (self.anywhere and is_address(name))):
            hint = f"Open http://{sorted(self.names)[0]}, with the port that the command printed."
            raise Refused(400, "the request is for another host.", hint)

    async def _check_post(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        if scope["method"] != "POST":
            raise Refused(405, "pages require GET, what-ifs require POST.", "Use GET or POST.")
        if not _from_here(headers):
            raise Refused(
                403,
                "the request did not come from a page of this explorer.",
                "Open the page in this explorer and try again.",
            )
        if headers.get("content-type", "").split(";")[0].strip() not in ("application/x-www-form-urlencoded", ""):
            raise Refused(415, "a form must be sent as application/x-www-form-urlencoded.", "Set this content type.")
        form = _fields(await _body(headers, receive))
        given = headers.get(TOKEN_HEADER, form.pop(TOKEN, ""))
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            raise Refused(403, "the token of the form is missing or outdated.",
                          "Reload the page and try again.")  # fmt: skip
        scope["plait.form"] = form


def _host_name(given: list[str]) -> str | None:
    """Name in a single Host header, without the port; else None."""
    if len(given) != 1:
        return None
    try:
        parts = urlsplit(f"//{given[0]}")
        own = parts.hostname if parts.netloc == given[0] and "@" not in given[0] and parts.port != -1 else None
    except ValueError:
        return None
    return own


def _check_address(scope: Scope) -> None:
    size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    if size > MAX_ADDRESS_BYTES:
        hint = "For an entity with a long name, use its row number: ?row=."
        raise Refused(414, f"the address has {size:,} bytes (maximum {MAX_ADDRESS_BYTES:,}).", hint)


def _from_here(headers: Headers) -> bool:
    """Whether a post comes from one of our pages, by its headers."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin, referer = headers.get("origin"), headers.get("referer")
    page = origin if origin is not None else referer
    try:
        return page is None or urlsplit(page).netloc == headers["host"]
    except ValueError:  # not an address
        return False


async def _body(headers: Headers, receive: Receive) -> bytes:
    """Body of a post, up to a limit."""
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length) > MAX_BODY_BYTES:
        raise _too_large()
    body: bytes = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "the request ended early.", "Send it again.")
        body += bytes(message.get("body", b""))
        if len(body) > MAX_BODY_BYTES:
            raise _too_large()
        if not message.get("more_body", False):
            return body


def _too_large() -> Refused:
    return Refused(413, f"a form can have at most {MAX_BODY_BYTES:,} bytes.", "Send less.")


def _fields(body: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:
        raise Refused(400, "the form cannot be read.", "Use the forms of the pages.") from None
    return dict(pairs)


def _with_headers(send: Send) -> Callable[[Message], Awaitable[None]]:
    """Add security headers to every response."""

    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers: Any = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await send(message)

    return answer
