"""The server of ``trailgate browse``: one trail, an index that is built in the background, and its pages.

A page is a function of the index and the query of the address, which returns the values for a
template. ``PAGES`` and ``_TrailPages.routes`` list these functions. They run in threads because
they read files. SQL is separate: it may take long, and is cancelled if its client disconnects.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from secrets import token_urlsafe
from threading import Thread
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from trailgate.browse.byte_pages import bytes_page
from trailgate.browse.exports import RowsFile, export_file
from trailgate.browse.growth import GrowingIndex
from trailgate.browse.guard import App, RequestGuard
from trailgate.browse.index import TrailIndex
from trailgate.browse.matches import LatestResults, MatchSummary
from trailgate.browse.operation_pages import (
    Extents,
    Summaries,
    complete_value,
    matches_part,
    operations_page,
    transaction_page,
)
from trailgate.browse.overview import overview
from trailgate.browse.pages import Query, link_to, read_asset, render
from trailgate.browse.quarantine_pages import quarantine_page
from trailgate.browse.row_history import KeyUpdateLists, KeyUpdates, history_page
from trailgate.browse.sql_pages import answer_file, sql_page
from trailgate.browse.statements import StatementRunner, until_left
from trailgate.browse.table_pages import table_page
from trailgate.browse.transaction_extent import TransactionExtent
from trailgate.errors import OptionError, StorageError, TrailgateError, Where, mask_logins
from trailgate.sql.job import QueryCancellation
from trailgate.storage.files.trail_files import TrailPosition

if TYPE_CHECKING:
    from trailgate.browse.workbench import Workbench

Page = Callable[[TrailIndex, Query], dict[str, Any]]

TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
ASSETS: Final = (
    "style.css",
    "favicon.svg",
    "times.js",
    "fresh.js",
    "brush.js",
    "more.js",
    "matches.js",
    "bytes.js",
    "copy.js",
    "ask.js",
    "repair.js",
)
BENCH_ASSETS: Final = ("workbench.css", "workbench.js", "transaction.js")
# Browsers keep style sheets and scripts: their addresses have the token of this start of the server.
KEPT: Final = "private, max-age=86400, immutable"
SENT: Final = 1 << 20  # bytes of a file sent at once
WORKBENCH: Final = "/workbench"
CANCEL: Final = "/cancel"  # cancels the running SQL statement
ENDING_SECONDS: Final = 3  # unfinished responses get this time when the server ends
PAGES: Final[Mapping[str, Page]] = {
    "overview": lambda index, _: overview(index, link_to),
    "bytes": bytes_page,
    "table": table_page,
    "quarantine": quarantine_page,
}


def application(
    index: TrailIndex | None,
    token: str,
    host: str = "127.0.0.1",
    bench: Workbench | None = None,
    statements: StatementRunner | None = None,
) -> App:
    """Build the ASGI application for requests below ``/TOKEN/``: the pages of a trail, the workbench, or both."""
    statements = statements or StatementRunner()
    titled = "" if bench is None else bench.title
    trail = mask_logins(titled if index is None else index.found.prefix)
    around = {
        "trail": trail,
        "workbench": bench is not None,
        "alone": index is None,
        "done": True,
        "trail_damaged": False,
        "gone": [],
    }

    def problem(text: str, status: int) -> Response:
        values = around | {"page": "", "problem": text}
        return HTMLResponse(render("problem.html", values), status)

    def refused(_: Request, error: Exception) -> Response:
        return problem(str(error), 400 if isinstance(error, OptionError) else 422)

    def missing(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return problem("there is no such page", error.status_code)

    # The pages of the trail are missing if only the workbench is served.
    routes = [] if index is None else _TrailPages(index, statements, around).routes()
    routes += map(_asset, ASSETS)
    if bench is not None:
        # It imports the parsers of all messages, which a trail's pages do not need.
        from trailgate.browse.workbench_pages import WorkbenchPage  # noqa: PLC0415

        routes += [WorkbenchPage(bench, around).route(WORKBENCH), *map(_asset, BENCH_ASSETS)]
        if index is not None:
            from trailgate.browse.transaction_messages import (  # noqa: PLC0415
                transaction_message,
            )

            made = partial(transaction_message, index)
            routes.append(
                Route("/message", lambda request: JSONResponse(made(request.query_params)))
            )
    if index is None:
        routes.append(Route("/", lambda _: RedirectResponse(WORKBENCH.removeprefix("/"))))
    # Only these addresses accept POST.
    return RequestGuard(
        Starlette(
            routes=routes, exception_handlers={TrailgateError: refused, HTTPException: missing}
        ),
        token,
        host,
        frozenset(({CANCEL} if index is not None else set()) | ({WORKBENCH} if bench else set())),
    )


@dataclass(frozen=True, slots=True)
class _TrailPages:
    """The pages of a trail. ``around`` contains the values that all pages have."""

    index: TrailIndex
    statements: StatementRunner
    around: Mapping[str, Any]
    summaries: Summaries = field(default_factory=lambda: LatestResults(MatchSummary))
    extents: Extents = field(default_factory=lambda: LatestResults(_extent))
    key_updates: KeyUpdateLists = field(default_factory=lambda: LatestResults(KeyUpdates))

    def routes(self) -> list[Route]:
        """Return the HTTP routes of all pages of the trail, including SQL."""
        # Slow results are kept from one request to the next.
        kept: dict[str, Page] = {
            "operations": partial(operations_page, summaries=self.summaries),
            "matches": partial(matches_part, summaries=self.summaries),
            "row": partial(history_page, lists=self.key_updates),
            "transaction": partial(transaction_page, extents=self.extents),
        }
        return [
            *(self._page(name, page) for name, page in {**PAGES, **kept}.items()),
            Route("/value", self._value),
            Route("/sql", self._ask),
            Route("/answer", self._save),
            Route("/export", self._export),
            Route(CANCEL, self._cancel, methods=["POST"]),
        ]

    def _page(self, name: str, page: Page) -> Route:
        def show(request: Request) -> Response:
            return self._shown(name, page(self.index, request.query_params))

        return Route(f"/{'' if name == 'overview' else name}", show)

    def _shown(self, name: str, values: dict[str, Any]) -> Response:
        index = self.index
        state = {
            "page": name,
            "done": index.done,
            "trail_damaged": index.is_damaged,
            "gone": index.gone_names,
        }
        return HTMLResponse(render(f"{name}.html", {**self.around, **state, **values}))

    def _value(self, request: Request) -> Response:
        return PlainTextResponse(complete_value(self.index, request.query_params))

    async def _ask(self, request: Request) -> Response:
        make = partial(sql_page, self.index, self.statements, request.query_params)
        values = await until_left(request, make)
        return await run_in_threadpool(self._shown, "sql", values)

    async def _save(self, request: Request) -> Response:
        make = partial(answer_file, self.index, self.statements, request.query_params)
        return await self._sent(request, make, "answer")

    async def _export(self, request: Request) -> Response:
        make = partial(export_file, self.index, request.query_params)
        return await self._sent(request, make, "operations")

    async def _sent(
        self, request: Request, make: Callable[[QueryCancellation], RowsFile], name: str
    ) -> Response:
        """Send the file that a function creates, and cancel the function if the client disconnects."""
        file, media_type, kind = await until_left(request, make)
        # iter() with a sentinel: call until it returns b"".
        parts = iter(lambda: file.read(SENT), b"")
        saved = {"content-disposition": f'attachment; filename="{name}.{kind}"'}
        close = BackgroundTask(file.close)
        return StreamingResponse(parts, media_type=media_type, headers=saved, background=close)

    async def _cancel(self, request: Request) -> Response:
        await run_in_threadpool(self.statements.end)
        # The typed statement returns to the page, so that it can be corrected.
        draft = parse_qs((await request.body()).decode("utf-8", "replace")).get("sql", [""])[0]
        return RedirectResponse(link_to("sql", draft=draft), 303)


def _extent(_: TrailPosition) -> TransactionExtent:
    return TransactionExtent()


def _asset(name: str) -> Route:
    def give(_: Request) -> Response:
        kind = TYPES[name.rpartition(".")[2]]
        return Response(read_asset(name), media_type=kind, headers={"cache-control": KEPT})

    return Route(f"/{name}", give)


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The host and port on which ``trailgate browse`` listens. Port 0 chooses a free port."""

    host: str = "127.0.0.1"
    port: int = 0


def serve(
    path: str | None,
    definitions: str | None,
    address: ServerAddress,
    begun: Callable[[str], None],
    bench: Workbench | None = None,
) -> None:
    """Serve the pages of a trail, the workbench, or both until the process is interrupted.

    ``begun`` is called with the address when the server is ready. Raises StorageError if there is
    no trail, or if the port is not available.
    """
    with ExitStack() as stack:
        listener = stack.enter_context(_listening(address))
        index = None
        if path is not None:
            index = stack.enter_context(GrowingIndex(path, definitions))
            reading = Thread(target=_read, args=(index,), daemon=True)
            reading.start()
            # callbacks run in reverse order: stop the index, wait for its thread, then close it
            stack.callback(reading.join)
            stack.callback(index.stop)
        token = token_urlsafe(24)
        statements = StatementRunner()
        config = uvicorn.Config(
            application(index, token, address.host, bench, statements),
            timeout_graceful_shutdown=ENDING_SECONDS,
            log_level="error",
            access_log=False,
            server_header=False,
            date_header=False,
        )
        host = f"[{address.host}]" if ":" in address.host else address.host
        begun(f"http://{host}:{listener.getsockname()[1]}/{token}/")
        _Server(config, statements).run(sockets=[listener])


class _Server(uvicorn.Server):
    """A server that cancels SQL before it waits for unfinished responses."""

    def __init__(self, config: uvicorn.Config, statements: StatementRunner) -> None:
        super().__init__(config)
        self._statements = statements

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the server: cancel its SQL statement first."""
        self._statements.close()
        await super().shutdown(sockets)


def _read(index: GrowingIndex) -> None:
    index.build()
    index.follow()


def _listening(address: ServerAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    # A restarted server gets the same port at once, although old connections are in TIME_WAIT.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address.host, address.port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        raise StorageError(
            f"the server cannot listen there: {error}",
            where=Where(source=f"{address.host}:{address.port}"),
            hint="Choose another port with --port; without it any free port is used",
        ) from None
    return listener
