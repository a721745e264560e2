"""Application of the explorer: routes to pages as HTML or JSON, and a cache of pages."""

import contextlib
import logging
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib import resources
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import anyio
import anyio.to_thread
from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from plait.errors import PlaitError
from plait.explore import cell_pages, entity_pages, link_pages, overview_pages, relation_pages
from plait.explore.guard import MAX_FIELDS, Guard
from plait.explore.request import Moved, PageRequest, PageView, Refused
from plait.explore.site import Site
from plait.explore.subprocesses import Drawing
from plait.rendering import html
from plait.rendering.document import Document, Note, dump_json, render_json


class RenderedPage(NamedTuple):
    """A response: status, media type, bytes, and whether it may be cached."""

    status: int
    kind: str
    body: bytes
    lasting: bool = False


class PageCache:
    """LRU cache of responses by bytes; runs on the event loop, except for making pages.

    Concurrent requests for one page wait for one computation. At most `makers` threads per lane make
    pages, so fast pages do not wait for slow ones.
    """

    def __init__(self, most: int, makers: int) -> None:
        self.most, self.size = most, 0
        self.made: OrderedDict[str, RenderedPage] = OrderedDict()
        self.making: dict[str, anyio.Event] = {}
        self.makers = defaultdict[str, anyio.CapacityLimiter](partial(anyio.CapacityLimiter, makers))

    async def get(self, key: str, make: Callable[[], RenderedPage], lane: str) -> RenderedPage:
        """The response to a request; `lane`: queue in which it waits."""
        while True:
            if (page := self.made.get(key)) is not None:
                self.made.move_to_end(key)
                return page
            if key not in self.making:
                return await self._make(key, make, lane)
            await self.making[key].wait()

    async def _make(self, key: str, make: Callable[[], RenderedPage], lane: str) -> RenderedPage:
        ready = self.making[key] = anyio.Event()
        try:
            made = await anyio.to_thread.run_sync(make, limiter=self.makers[lane])
            if made.lasting:
                self._keep(key, made)
            return made
        finally:
            del self.making[key]
            ready.set()

    def _keep(self, key: str, made: RenderedPage) -> None:
        self.made[key] = made
        self.size += len(made.body) + len(key)
        while self.size > self.most:
            old, gone = self.made.popitem(last=False)
            self.size -= len(gone.body) + len(old)


MAKERS = 2  # pages made in parallel: more would wait for each other
PREPARED_COMPONENTS = 20  # whose pages are made in advance
READERS = 8  # files sent in parallel
CACHE_BYTES = 64_000_000  # of pages
HTML, JSON = "text/html; charset=utf-8", "application/json"
STATIC = {"style.css": ("plait.rendering.page", "text/css"), "explore.css": ("plait.explore.static", "text/css"),
          "htmx.min.js": ("plait.explore.static", "text/javascript")}  # fmt: skip
LOOK = replace(html.PAGE, longest=None)  # names are not shortened

Page = Callable[[Site, PageRequest], PageView]
QUICK: tuple[Page, ...] = (
    entity_pages.finding, entity_pages.axis, cell_pages.ask, cell_pages.cancel, cell_pages.trial,
)  # fmt: skip
LANES: dict[Page, str] = {**dict.fromkeys(QUICK, "quick"), entity_pages.entity_map: "drawn"}


class Pages:
    """All pages of a site, made on request."""

    def __init__(self, site: Site) -> None:
        self.site, self.kept, self.drawing = site, PageCache(CACHE_BYTES, MAKERS), Drawing()
        loader = PackageLoader("plait.explore", "templates")
        self.templates = Environment(loader=loader, autoescape=select_autoescape(default=True), trim_blocks=True,
                                     lstrip_blocks=True)  # fmt: skip

    def routes(self) -> list[Route]:
        """All routes; those of pages as HTML and as JSON."""
        routes = [
            *self._both("/", overview_pages.home, "/index"),
            *self._both("/search", entity_pages.finding),
            *self._both("/components", overview_pages.components),
            *self._both("/component/{index}/{number}", overview_pages.component),
            *self._both("/component/{number}", overview_pages.component),
            *self._both("/surprises", link_pages.surprises),
            *self._both("/axis/{axis}", entity_pages.axis),
            *self._both("/axis/{axis}/{name:path}", entity_pages.entity),
            *self._both("/map/{axis}", entity_pages.entity_map),
            *self._both("/map/{axis}/{name:path}", entity_pages.entity_map),
            *self._both("/relation/{relation}/cell", cell_pages.cell),
            Route("/relation/{relation}.csv", self._file(relation_pages.relation_csv)),
            *self._both("/relation/{relation}", relation_pages.relation),
            *self._both("/whatif", cell_pages.ask, method="POST"),
            *self._both("/whatif/{id}/cancel", cell_pages.cancel, method="POST"),
            *self._both("/whatif/{id}", cell_pages.trial),
            Route("/static/{file}", _static),
        ]
        return routes

    def _both(self, path: str, page: Page, twin: str = "", method: str = "GET") -> list[Route]:
        return [
            Route(f"{twin or path}.json", self._answer(page, as_json=True), methods=[method]),
            Route(path, self._answer(page, as_json=False), methods=[method]),
        ]

    def _answer(self, page: Page, *, as_json: bool) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                made = await self._get(page, _read_request(request), _address(request), as_json, request.method)
            except Moved as moved:
                return RedirectResponse(moved.address + (".json" if as_json else ""), 303)
            except Refused as refused:
                made = self.refusal(refused, as_json)
            except Exception as error:
                made = self.refusal(_bug(error, request), as_json)
            return _response(made)

        return answer

    async def _get(
        self, page: Page, asked: PageRequest, address: str, as_json: bool = False, method: str = "GET"
    ) -> RenderedPage:
        key = f"{method} {address} {asked.part}"
        make = partial(self._render, page, asked, address, as_json)
        return await self.kept.get(key, make, LANES.get(page, ""))

    def _render(self, page: Page, asked: PageRequest, address: str, as_json: bool) -> RenderedPage:
        try:
            view = page(self.site, asked)
        except PlaitError as error:
            raise Refused(400, error.message, error.hint or "") from None
        if as_json:
            return RenderedPage(view.status, JSON, render_json(view.document).encode(), view.lasting)
        return RenderedPage(view.status, HTML, self.page(view, _json_address(address)).encode(), view.lasting)

    async def prepare(self) -> None:
        """Make common pages in advance, one after another."""
        shared: dict[str, tuple[Page, dict[str, str]]] = {
            "/": (overview_pages.home, {}),
            "/components": (overview_pages.components, {}),
            "/surprises": (link_pages.surprises, {}),
        }
        for index in (indices := self.site.component_indices):
            for number in range(min(self.site.fit.rank[index], PREPARED_COMPONENTS)):
                path = {"number": str(number)} | ({"index": index} if len(indices) > 1 else {})
                shared[self.site.component_address(index, number)] = (overview_pages.component, path)
        for address, (page, path) in shared.items():
            with contextlib.suppress(Exception):  # reported when the page is requested
                await self._get(page, PageRequest(path), address)

    def _file(self, made: Callable[[Site, PageRequest], tuple[str, Iterator[bytes]]]) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            try:
                name, pieces = made(self.site, _read_request(request))
            except Refused as refused:
                return _response(self.refusal(refused, False))
            headers = {"Content-Disposition": f'attachment; filename="{name.encode("ascii", "replace").decode()}"'}
            return StreamingResponse(pieces, media_type="text/csv; charset=utf-8", headers=headers)

        return answer

    def page(self, view: PageView, twin: str = "") -> str:
        """A view as HTML; `twin`: address of its JSON."""
        blocks = Markup(html.write_blocks(view.document.blocks, replace(LOOK, draw=self.drawing.draw)))
        template = self.templates.get_template(view.template)
        more = {"title": view.document.title, "blocks": blocks, "twin": twin, "run": str(self.site.run),
                "relations": self.site.fit.model.relations, "query": "", **view.more}  # fmt: skip
        return template.render(more)

    def refusal(self, refused: Refused, as_json: bool) -> RenderedPage:
        """An error as a page or as JSON."""
        if as_json:
            said = {"error": {"status": refused.status, "what": refused.what, "hint": refused.hint or None}}
            return RenderedPage(refused.status, JSON, dump_json(said).encode())
        notes = [Note(text[:1].upper() + text[1:], quiet=False) for text in (refused.what, refused.hint) if text]
        words = {400: "Not possible", 404: "Not found", 503: "Too many requests"}
        view = PageView(Document(words.get(refused.status, "Not allowed"), notes), status=refused.status)
        return RenderedPage(refused.status, HTML, self.page(view).encode())


def build(site: Site, host: str = "127.0.0.1") -> ASGIApp:
    """Application of a site, behind its guard."""
    pages = Pages(site)

    def refuse(scope: Scope, refused: Refused) -> ASGIApp:
        return _response(pages.refusal(refused, scope["path"].endswith(".json")))

    async def refused_by_router(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        words = {
            404: ("this page does not exist.", "Start at the first page, /."),
            405: ("this page does not allow the method of the request.", "Use the forms and links of the pages."),
        }
        what, hint = words.get(error.status_code, (error.detail, ""))
        return _response(pages.refusal(Refused(error.status_code, what, hint), request.url.path.endswith(".json")))

    @asynccontextmanager
    async def living(app: Any) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = READERS
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pages.prepare)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
                site.trials.close()
                pages.drawing.close()

    app = Starlette(routes=pages.routes(), lifespan=living,
                    exception_handlers={HTTPException: refused_by_router})  # fmt: skip
    app.router.redirect_slashes = False
    return Guard(app, host=host, token=site.token, refuse=refuse)


def _bug(error: Exception, request: Request) -> Refused:
    """Error for a bug of ours; the terminal has the traceback."""
    logging.getLogger(__name__).error("%s", request.url, exc_info=error)
    hint = "Please report it, with the output in the terminal of the explorer."
    return Refused(500, f"this is a bug in Plait: {type(error).__name__}.", hint)


def _response(made: RenderedPage) -> Response:
    return Response(made.body, made.status, media_type=made.kind)


def _read_request(request: Request) -> PageRequest:
    text = request.scope["query_string"].decode("latin-1")
    try:
        query = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:
        raise Refused(400, "the query of the address is invalid.", "Use the forms and links of the pages.") from None
    part = request.headers.get("hx-request") == "true"
    return PageRequest(request.path_params, query, request.scope.get("plait.form", {}), part)


def _address(request: Request) -> str:
    """The requested address, as written."""
    raw = (request.scope.get("raw_path") or request.scope["path"].encode()).decode("latin-1").split("?")[0]
    query = request.scope["query_string"].decode("latin-1")
    return f"{raw}?{query}" if query else raw


def _json_address(address: str) -> str:
    """Address of a page's JSON."""
    path, mark, query = address.partition("?")
    return f"{'/index' if path == '/' else path}.json{mark}{query}"


def _static(request: Request) -> Response:
    """One of the static files."""
    file = request.path_params["file"]
    if file not in STATIC:
        raise HTTPException(404)
    package, kind = STATIC[file]
    return Response(resources.files(package).joinpath(file).read_bytes(), media_type=kind)
