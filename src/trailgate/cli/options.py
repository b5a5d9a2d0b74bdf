"""The arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import typer

from trailgate.errors import OptionError


class Format(StrEnum):
    """The form in which rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


TrailPath = Annotated[
    str,
    typer.Argument(metavar="TRAIL", help="The trail: its prefix (dirdat/ot), file or folder."),
]
DefinitionsFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="Definitions, if not in PATH.def.")
]
RowFormat = Annotated[Format, typer.Option(help="JSON is an object a line.")]
RowsFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Write the rows to a new file: .parquet, .csv or .jsonl."),
]
Threads = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Threads of this process; else one a core.")
]
Wide = Annotated[
    bool, typer.Option("--wide", help="One line a row, however long, with all that is known.")
]
SummaryAsJson = Annotated[bool, typer.Option("--json", help="Print the summary as a JSON object.")]


def named_values(given: Iterable[str]) -> dict[str, str]:
    """Return options that are written NAME=VALUE; raises OptionError."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise OptionError(f"expected NAME=VALUE, found {text!r}")
        found[name.strip()] = value
    return found
