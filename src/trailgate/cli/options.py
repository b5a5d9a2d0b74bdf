"""The arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, fields
from enum import StrEnum
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, get_args, get_type_hints

import typer

from trailgate.errors import OptionError
from trailgate.options import Flag


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


def flag_of(name: str) -> str:
    """Return a name as the command line spells it."""
    return f"--{name.replace('_', '-')}"


def takes(arguments: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator: the flags that a dataclass declares by its fields are those of a command, which takes it as ``given``.

    A field is declared as in ``limit: Annotated[int, COUNT, Flag("N", least=1), "The most rows."] = 9``, or as for Typer.
    """
    hints = get_type_hints(arguments, include_extras=True)
    flags = [_parameter(field, hints[field.name]) for field in fields(arguments)]
    flags.sort(
        key=lambda one: one.default is not Parameter.empty
    )  # what is required is listed first

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        plain = signature(function, eval_str=True)
        own = [one for one in plain.parameters.values() if one.name != "given"]

        @wraps(function)
        def command(**given: Any) -> None:
            others = {one.name: given.pop(one.name) for one in own}
            function(given=arguments(**given), **others)

        vars(command)["__signature__"] = plain.replace(parameters=[*own, *flags])
        command.__annotations__ = {one.name: one.annotation for one in (*own, *flags)}
        return command

    return decorate


def _parameter(field: Field[Any], annotation: Any) -> Parameter:
    """Return the parameter of a command that a field is."""
    hint, *given, last = get_args(annotation)
    if isinstance(last, str):
        flag = next((one for one in given if isinstance(one, Flag)), Flag())
        last = typer.Option(
            flag.name or flag_of(field.name),
            metavar=flag.metavar,
            help=last,
            min=flag.least,
            parser=flag.read,
        )
    default = field.default if field.default is not MISSING else Parameter.empty
    if field.default_factory is not MISSING:
        default = field.default_factory()
    kind = Parameter.KEYWORD_ONLY
    return Parameter(field.name, kind, default=default, annotation=Annotated[hint, last])
