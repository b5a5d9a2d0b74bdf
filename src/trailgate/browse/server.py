"""The server of ``trailgate browse``: one trail, its index built in the background, and a page for each kind of thing.

Each page is a row of ``PAGES``: a function from the trail and the query of the address to a template's values. Pages are made in threads, since they read files.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from secrets import token_urlsafe
from threading import Thread
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from trailgate.browse.byte_pages import record_bytes
from trailgate.browse.guard import App, Guard
from trailgate.browse.index import TrailIndex
from trailgate.browse.operation_pages import operations, transaction
from trailgate.browse.pages import asset, link_to, overview, render
from trailgate.browse.table_pages import table
from trailgate.errors import OptionError, StorageError, TrailgateError, Where, mask_logins

Query = Mapping[str, str]
Page = Callable[[TrailIndex, Query], dict[str, Any]]

TYPES: Final = {"css": "text/css", "js": "text/javascript"}
ASSETS: Final = ("style.css", "fresh.js", "more.js", "bytes.js")
PAGES: Final[Mapping[str, Page]] = {
    "overview": lambda index, _: overview(index, link_to),
    "operations": operations,
    "transaction": transaction,
    "bytes": record_bytes,
    "table": table,
}


def application(index: TrailIndex, token: str, host: str = "127.0.0.1") -> App:
    """Return what answers requests for a trail's pages below ``/TOKEN/``."""
    trail = mask_logins(index.found.prefix)

    def page(name: str) -> Route:
        def show(request: Request) -> Response:
            values = PAGES[name](index, request.query_params)
            return HTMLResponse(
                render(f"{name}.html", {"trail": trail, "page": name, "done": index.done, **values})
            )

        return Route(f"/{'' if name == 'overview' else name}", show)

    def refused(_: Request, error: Exception) -> Response:
        status = 400 if isinstance(error, OptionError) else 422
        return _problem(trail, str(error), status)

    def missing(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _problem(trail, "there is no such page", error.status_code)

    return Guard(
        Starlette(
            routes=[*map(page, PAGES), *map(_asset, ASSETS)],
            exception_handlers={TrailgateError: refused, HTTPException: missing},
        ),
        token,
        host,
    )


def _problem(trail: str, text: str, status: int) -> Response:
    values = {"trail": trail, "page": "", "done": True, "problem": text}
    return HTMLResponse(render("problem.html", values), status)


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
    path: str, definitions: str | None, address: Address, begun: Callable[[str], None]
) -> None:
    """Serve a trail's pages until the process is interrupted; ``begun`` is given their address once it is answered.

    Raises StorageError where there is no trail, and where the port cannot be had.
    """
    with _listening(address) as listener, TrailIndex(path, definitions) as index:
        reading = Thread(target=index.build, daemon=True)
        reading.start()
        token = token_urlsafe(24)
        config = uvicorn.Config(
            application(index, token, address.host),
            log_level="error",
            access_log=False,
            server_header=False,
            date_header=False,
        )
        host = f"[{address.host}]" if ":" in address.host else address.host
        begun(f"http://{host}:{listener.getsockname()[1]}/{token}/")
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            index.stop()
            reading.join()


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
