"""``trailgate browse``: show a trail, or the workbench for properties, in a browser."""

from __future__ import annotations

import webbrowser
from contextlib import suppress
from dataclasses import dataclass
from threading import Timer
from typing import Annotated, Final

import typer

from trailgate.errors import MissingDependencyError, OptionError
from trailgate.options import Flag
from trailgate.terminal.flags import DefinitionsFile, takes

AFTER: float = 0.5  # seconds after which the browser is opened; the server is ready by then

EXAMPLES: Final = (
    "trailgate browse dirdat/ot",
    "trailgate browse --properties shop.properties --messages messages",
)


@dataclass(frozen=True, slots=True)
class BrowseArguments:
    """The arguments of ``trailgate browse``."""

    definitions: DefinitionsFile = None
    properties: Annotated[
        str | None, Flag("FILE"), "The properties file of a capture, for the workbench."
    ] = None
    messages: Annotated[
        str | None, Flag("FOLDER"), "A folder of messages to choose from in the workbench."
    ] = None
    save_to: Annotated[
        str | None, Flag("FOLDER"), "The folder that the workbench may save properties to."
    ] = None
    host: Annotated[str, Flag("ADDRESS"), "The address to listen at."] = "127.0.0.1"
    port: Annotated[int, Flag("N", least=0), "The port to listen at; 0 is any free port."] = 0
    open_browser: Annotated[
        bool, Flag(name="--open/--no-open"), "Open the pages in the browser."
    ] = True


@takes
def command(
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="TRAIL",
            help="The trail: its prefix (dirdat/ot), file or folder; not needed for the workbench.",
        ),
    ] = None,
    *,
    arguments: BrowseArguments,
) -> None:
    """Show a trail or the workbench in a browser, until Ctrl-C."""
    benched = (arguments.properties, arguments.messages, arguments.save_to)
    if path is None and not any(benched):
        hint = "Name a trail; --properties or --messages opens the workbench"
        raise OptionError("there is nothing to show", hint=hint)
    try:
        from trailgate.browse.server import ServerAddress, serve
    except ModuleNotFoundError as error:
        problem = f"browse needs the package {error.name}"
        raise MissingDependencyError.of_extra(problem, "browse") from None

    def begun(address: str) -> None:
        print(address, flush=True)
        if arguments.open_browser:
            opening = Timer(AFTER, webbrowser.open, [address])
            opening.daemon = True
            opening.start()

    with suppress(KeyboardInterrupt):
        bench = None
        if any(benched):
            from trailgate.browse.workbench import Workbench

            bench = Workbench(*benched)
        serve(
            path, arguments.definitions, ServerAddress(arguments.host, arguments.port), begun, bench
        )
