"""``trailgate browse``: a trail as pages in a browser."""

from __future__ import annotations

import webbrowser
from contextlib import suppress
from threading import Timer
from typing import Annotated

from trailgate.cli.options import DefinitionsFile, TrailPath, takes
from trailgate.errors import MissingDependencyError
from trailgate.options import Flag

AFTER: float = 0.5  # seconds until the browser is opened, which the server answers by then


@takes
def command(
    path: TrailPath,
    *,
    definitions: DefinitionsFile = None,
    host: Annotated[str, Flag("ADDRESS"), "The address at which the pages are."] = "127.0.0.1",
    port: Annotated[int, Flag("N", least=0), "Its port; 0 is any that is free."] = 0,
    open_browser: Annotated[
        bool, Flag(name="--open/--no-open"), "Open the pages in the browser."
    ] = True,
) -> None:
    """Show a trail in a browser, until Ctrl-C."""
    try:
        from trailgate.browse.server import Address, serve
    except ModuleNotFoundError as error:
        problem = f"browse needs the package {error.name}"
        raise MissingDependencyError.of_extra(problem, "browse") from None

    def begun(address: str) -> None:
        print(address, flush=True)
        if open_browser:
            opening = Timer(AFTER, webbrowser.open, [address])
            opening.daemon = True
            opening.start()

    with suppress(KeyboardInterrupt):
        serve(path, definitions, Address(host, port), begun)
