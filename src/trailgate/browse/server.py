"""The server of ``trailgate browse``: one trail, its index built in the background, and a page for each kind of thing.

Each page is a row of ``PAGES``: a function from the trail and the query of the address to a template's values. Pages are made in threads, since they read files.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from secrets import token_urlsafe
from threading import Thread
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from trailgate.browse.byte_pages import record_bytes
from trailgate.browse.growth import GrowingIndex
from trailgate.browse.guard import App, Guard
from trailgate.browse.index import TrailIndex
from trailgate.browse.operation_pages import operations, transaction
from trailgate.browse.pages import Query, asset, link_to, overview, render
from trailgate.browse.quarantine_pages import quarantine
from trailgate.browse.sql_pages import answer_file, sql
from trailgate.browse.table_pages import table
from trailgate.browse.workbench import Workbench
from trailgate.browse.workbench_pages import ADDRESS, WorkbenchPage
from trailgate.errors import OptionError, StorageError, TrailgateError, Where, mask_logins

Page = Callable[[TrailIndex, Query], dict[str, Any]]

TYPES: Final = {"css": "text/css", "js": "text/javascript"}
ASSETS: Final = (
    "style.css",
    "fresh.js",
    "brush.js",
    "more.js",
    "bytes.js",
    "copy.js",
    "ask.js",
    "repair.js",
)
BENCH_ASSETS: Final = ("workbench.css", "workbench.js")
SENT: Final = 1 << 20  # bytes of a file at once
PAGES: Final[Mapping[str, Page]] = {
    "overview": lambda index, _: overview(index, link_to),
    "operations": operations,
    "transaction": transaction,
    "bytes": record_bytes,
    "table": table,
    "sql": sql,
    "quarantine": quarantine,
}


def application(
    index: TrailIndex | None, token: str, host: str = "127.0.0.1", bench: Workbench | None = None
) -> App:
    """Return what answers requests below ``/TOKEN/``: for a trail's pages, for the workbench, or for both."""
    titled = "" if bench is None else bench.title
    trail = mask_logins(titled if index is None else index.found.prefix)
    around = {
        "trail": trail,
        "workbench": bench is not None,
        "alone": index is None,
        "done": True,
        "trail_damaged": False,
    }

    def page(name: str) -> Route:
        assert index is not None

        def show(request: Request) -> Response:
            values = PAGES[name](index, request.query_params)
            own = {"page": name, "done": index.done, "trail_damaged": index.is_damaged}
            return HTMLResponse(render(f"{name}.html", around | own | values))

        return Route(f"/{'' if name == 'overview' else name}", show)

    def give(request: Request) -> Response:
        assert index is not None
        file, kind = answer_file(index, request.query_params)
        parts = iter(lambda: file.read(SENT), b"")
        return StreamingResponse(parts, media_type=kind, background=BackgroundTask(file.close))

    def problem(text: str, status: int) -> Response:
        values = around | {"page": "", "problem": text}
        return HTMLResponse(render("problem.html", values), status)

    def refused(_: Request, error: Exception) -> Response:
        return problem(str(error), 400 if isinstance(error, OptionError) else 422)

    def missing(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return problem("there is no such page", error.status_code)

    routes = [] if index is None else [*map(page, PAGES), Route("/answer", give)]
    routes += map(_asset, ASSETS)
    if bench is not None:
        routes += [WorkbenchPage(bench, around).route(), *map(_asset, BENCH_ASSETS)]
    if index is None:
        routes.append(Route("/", lambda _: RedirectResponse(ADDRESS.removeprefix("/"))))
    return Guard(
        Starlette(
            routes=routes, exception_handlers={TrailgateError: refused, HTTPException: missing}
        ),
        token,
        host,
        frozenset() if bench is None else frozenset({ADDRESS}),
    )


def _asset(name: str) -> Route:
    def give(_: Request) -> Response:
        return Response(asset(name), media_type=TYPES[name.rpartition(".")[2]])

    return Route(f"/{name}", give)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens; port 0 is any that is free."""

    host: str = "127.0.0.1"
    port: int = 0


def serve(
    path: str | None,
    definitions: str | None,
    address: Address,
    begun: Callable[[str], None],
    bench: Workbench | None = None,
) -> None:
    """Serve a trail's pages, the workbench or both until the process is interrupted; ``begun`` is given their address once it is answered.

    Raises StorageError where there is no trail, and where the port cannot be had.
    """
    with ExitStack() as held:
        listener = held.enter_context(_listening(address))
        index = None
        if path is not None:
            index = held.enter_context(GrowingIndex(path, definitions))
            reading = Thread(target=_read, args=(index,), daemon=True)
            reading.start()
            held.callback(reading.join)
            held.callback(index.stop)
        token = token_urlsafe(24)
        config = uvicorn.Config(
            application(index, token, address.host, bench),
            log_level="error",
            access_log=False,
            server_header=False,
            date_header=False,
        )
        host = f"[{address.host}]" if ":" in address.host else address.host
        begun(f"http://{host}:{listener.getsockname()[1]}/{token}/")
        uvicorn.Server(config).run(sockets=[listener])


def _read(index: GrowingIndex) -> None:
    index.build()
    index.follow()


def _listening(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address.host, address.port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        raise StorageError(
            f"no server can listen there: {error}",
            where=Where(source=f"{address.host}:{address.port}"),
            hint="--port names another port; without it any free one is taken",
        ) from None
    return listener
