"""The flags of commands: those that several commands share, and the decorator that makes flags of declarations.

An option is declared as ``Annotated[type, Flag(...), "What it means."]``: for a parameter of a
command, for a field of the dataclass that a command accepts, or once below under a name if several
commands share it. ``takes`` reads these annotations and gives the command the signature that typer
expects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum, StrEnum
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import typer

from trailgate.errors import OptionError
from trailgate.options import Flag

if TYPE_CHECKING:
    from trailgate.storage.files.trail_files import TrailFile

Command = TypeVar("Command", bound=Callable[..., None])
SHORTEST: Final = 20  # digits of a position in its long form
# s3://bucket/file as a Path has one slash; one letter before the colon is a drive of Windows.
ADDRESS: Final = re.compile(r"[A-Za-z][\w+.-]+:/")
OFFSET: Final = re.compile(r"[0-9]+|0x[0-9a-fA-F]+")


class OutputFormat(StrEnum):
    """The values of ``--format``: how rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


TrailPath = Annotated[
    str,
    typer.Argument(metavar="TRAIL", help="The trail: its prefix (dirdat/ot), file or folder."),
]
DefinitionsFile = Annotated[str | None, Flag("FILE"), "The definitions file; default PREFIX.def."]
RowFormat = Annotated[OutputFormat, "How to print rows; json is one object per line."]
RowsFile = Annotated[
    str | None, Flag("FILE"), "Write the rows to a new file: .parquet, .csv or .jsonl."
]
Limit = Annotated[
    int | None, Flag("N", least=0), "The maximum number of rows; default 100 as a table, else all."
]
FewRows = Annotated[
    int | None, Flag("N", least=0), "The maximum number of rows; default 20 as a table, else all."
]
Records = Annotated[
    int | None, Flag("N", "--limit", least=0), "The maximum number of records; default all."
]
Position = Annotated[str | None, Flag("POSITION")]
After = Annotated[Position, "Start after this position, such as 0:679."]
FromPosition = Annotated[Position, "Start at this position."]
ToPosition = Annotated[Position, "End at this position."]
Tables = Annotated[
    list[str] | None, Flag("PATTERNS"), "Only these tables, such as HR.*,SALES.ORD?; repeatable."
]
Properties = Annotated[str, Flag("FILE"), "The properties file of the capture."]
Base = Annotated[str | None, Flag("FOLDER"), "The folder that relative paths start from."]
Threads = Annotated[int | None, Flag("N", least=1), "The number of threads; default one per core."]
Wide = Annotated[bool, "Print every column, one line per row, of any length."]
AsJson = Annotated[bool, Flag(name="--json"), "Print the summary as a JSON object."]
JsonLines = Annotated[bool, Flag(name="--json"), "Print one JSON object per line."]


def named_values(given: Iterable[str]) -> dict[str, str]:
    """Parse command-line options written as NAME=VALUE. Raises OptionError."""
    values: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise OptionError(f"expected NAME=VALUE, found {text!r}")
        if any(_fold(name) == _fold(one) for one in values):
            raise OptionError(f"{name.strip()} is set twice", hint="Set it once")
        values[name.strip()] = value
    return values


def _fold(name: str) -> str:
    """Return a name in the form in which options are compared: ``recordFormat`` and ``record_format`` are equal."""
    return re.sub(r"[\s_-]", "", name).casefold()


def flag_of(name: str) -> str:
    """Return the command-line flag of an option: ``to_position`` → ``--to-position``."""
    return f"--{name.replace('_', '-')}"


def complete_position_flag(files: Sequence[TrailFile], text: str | None) -> str | None:
    """Complete the value of a flag such as ``--to-position`` to file:offset, if it is only a byte offset.

    If the trail has a single file, such as number 0, the byte offsets 679 and 0x2A7 become 0:679.
    Other texts are returned unchanged. Raises OptionError for an offset without a file number if
    the trail has several files.
    """
    if not files or text is None or len(text) >= SHORTEST or not OFFSET.fullmatch(text):
        return text
    first, last = files[0].number, files[-1].number
    if len(files) > 1:
        problem = f"{text} is a byte offset, but the trail has the files {first} to {last}"
        raise OptionError(problem, hint=f"Name the file too: {first}:{text}")
    return f"{first}:{int(text, 16 if 'x' in text else 10)}"


def named_fields(given: Any, *excluded: str) -> dict[str, Any]:
    """Return the values of a command's dataclass of flags by name, except those named in ``excluded``."""
    return {
        field.name: getattr(given, field.name)
        for field in fields(given)
        if field.name not in excluded
    }


def takes(function: Command, panels: Mapping[str, Sequence[str]] | None = None) -> Command:
    """Decorate a command with the flags that its parameters and their dataclasses declare.

    ``panels`` maps additional sections of the help to the names of the options in them.
    """
    plain = signature(function, eval_str=True)
    own: list[Parameter] = []
    flags: list[Parameter] = []
    grouped: dict[str, tuple[Any, list[str]]] = {}
    spellings: dict[str, str] = {}
    for one in plain.parameters.values():
        if is_dataclass(one.annotation):
            hints = get_type_hints(one.annotation, include_extras=True)
            # A dataclass becomes one flag per field. The wrapper below builds it again from the
            # flags.
            grouped[one.name] = one.annotation, [field.name for field in fields(one.annotation)]
            flags += [_of_field(field, hints[field.name]) for field in fields(one.annotation)]
            spellings |= {name: _spelling(name, hints[name]) for name in grouped[one.name][1]}
        else:
            own.append(one.replace(annotation=_typer_option(one.name, one.annotation)))
            spellings[one.name] = _spelling(one.name, one.annotation)

    flags.sort(key=lambda one: one.default is not Parameter.empty)  # required flags first
    by_name = {one.name: get_args(one.annotation)[1] for one in flags}
    for title, names in (panels or {}).items():
        for name in names:
            by_name[name].rich_help_panel = title

    @wraps(function)
    def command(*arguments: Any, **given: Any) -> None:
        for name, value in given.items():
            if value == "" or (isinstance(value, list | tuple) and "" in value):
                raise OptionError(f"the value of {spellings[name]} is empty")
            if isinstance(value, Path) and ADDRESS.match(str(value)):
                problem = f"{spellings[name]} takes a local path, not the address {value}"
                raise OptionError(problem, hint="Write it to a local path, and copy it")
        made = {
            name: kind(**{field: given.pop(field) for field in names})
            for name, (kind, names) in grouped.items()
        }
        function(*arguments, **given, **made)

    vars(command)["__signature__"] = plain.replace(parameters=[*own, *flags])
    command.__annotations__ = {one.name: one.annotation for one in (*own, *flags)}
    return command  # type: ignore[return-value]  # as it is called by typer


def _spelling(name: str, annotation: Any) -> str:
    """Return the name of a parameter in the help: ``--to``, or the metavar of an argument, such as TRAIL."""
    *given, meaning = get_args(annotation)
    if not isinstance(meaning, str):
        return meaning.metavar or name.upper()
    flag = next((one for one in given if isinstance(one, Flag)), Flag())
    return (flag.name or flag_of(name)).split()[0]


def _of_field(field: Field[Any], annotation: Any) -> Parameter:
    """Return the parameter of a command for a field of its dataclass of options."""
    default = field.default if field.default is not MISSING else Parameter.empty
    if field.default_factory is not MISSING:
        default = field.default_factory()
    hint = _typer_option(field.name, annotation)
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _typer_option(name: str, annotation: Any) -> Any:
    """Translate our annotation of an option to typer's."""
    hint, *given, meaning = get_args(annotation)
    # the annotation is typer's own already, such as that of an argument
    if not isinstance(meaning, str):
        return annotation
    flag = next((one for one in given if isinstance(one, Flag)), Flag())
    # typer would print the choices of a Literal as the metavar, so they are moved to the help text
    metavar, choices = flag.metavar, _choices(hint)
    if choices:
        # typer would show table|json|csv, which is wider than the help's column for metavars.
        metavar = metavar or name.rpartition("_")[2].upper()
        meaning = f"{meaning} Values: {', '.join(choices)}."
    return Annotated[
        hint,
        typer.Option(
            *(flag.name or flag_of(name)).split(),
            metavar=metavar,
            help=meaning,
            min=flag.least,
            parser=flag.read or (_path if Path in (hint, *get_args(hint)) else None),
        ),
    ]


def _path(text: str) -> Path:
    """Parse the path of an option.

    Raises BadParameter if it is empty, because ``Path("")`` is the working folder.
    """
    if not text:
        raise typer.BadParameter("the value is empty")
    return Path(text)


def _choices(hint: Any) -> list[str]:
    """Return the values of a Literal, an enumeration of strings, or a list of either, and otherwise an empty list."""
    if get_origin(hint) is Literal:
        return [str(one) for one in get_args(hint)]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return [str(one.value) for one in hint]
    return next(filter(None, map(_choices, get_args(hint))), [])
