"""``trailgate copybook``: show the layout of a copybook's records, or export their schema."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

import typer

from trailgate.cobol.copybook.conditional_text import read_constants, warn_of_unused_constants
from trailgate.cobol.copybook.layouts import (
    COMPILERS,
    BinarySizes,
    CobolDialect,
    CopybookField,
    CopybookLayout,
    SignPosition,
    SourceFormat,
)
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.errors import DefinitionError, OptionError
from trailgate.options import Flag
from trailgate.terminal import output
from trailgate.terminal.flags import named_values, takes
from trailgate.terminal.layout import print_rows

LOG: Final = logging.getLogger(__name__)
COPYBOOK_LOG: Final = logging.getLogger("trailgate.cobol.copybook")  # the reader's warnings


@dataclass(frozen=True, slots=True, kw_only=True)
class CopybookArguments:
    """The arguments of ``trailgate copybook``: each field is a flag of the command line."""

    to: Annotated[
        Literal["spark", "arrow", "sql", "json-schema"] | None,
        "Print the schema of the records instead: Spark's as JSON, Arrow's as Python, CREATE TABLE, or JSON Schema.",
    ] = None
    option: Annotated[
        list[str],
        Flag("NAME=VALUE", "--option -o"),
        "With --to: an option of the copybook format, such as names=sql; repeatable.",
    ] = field(default_factory=list)
    format: Annotated[
        Literal["table", "json"], "How to print rows; json is one object per line."
    ] = "table"
    copy_path: Annotated[
        list[str] | None, Flag("FOLDER"), "A folder to search for COPY members; repeatable."
    ] = None
    source_format: Annotated[
        SourceFormat, "Fixed format uses columns 8 to 72, free format the whole line."
    ] = SourceFormat.AUTO
    binary_sizes: Annotated[
        BinarySizes | None,
        "Sizes of binary numbers in bytes: 2, 4 or 8 (ibm); 1, 2, 4 or 8 (powers); or as few as possible (smallest).",
    ] = None
    compiler: Annotated[
        Literal["ibm", "micro-focus", "gnucobol", "fujitsu"],
        "The compiler whose sizes and alignment to use.",
    ] = "ibm"
    constant: Annotated[
        list[str],
        Flag("NAME=VALUE"),
        "A constant of conditional text ($IF, >>IF), or NAME=OFF for one that is not defined; repeatable.",
    ] = field(default_factory=list)
    decimal_comma: Annotated[bool, "Read pictures with DECIMAL-POINT IS COMMA."] = False
    dialects: Annotated[
        bool, "Show only the items whose offset or length depends on the compiler."
    ] = False


@takes
def command(
    path: Annotated[
        list[str],
        typer.Argument(
            help="The copybook; several copybooks describe one file together.", metavar="FILE"
        ),
    ],
    arguments: CopybookArguments,
) -> None:
    """Show the layout of a copybook's records, or export their schema."""
    if arguments.to is not None:
        if arguments.dialects or arguments.format != "table":
            raise OptionError("--to cannot be combined with --format or --dialects")
        text = _schema_text(path, arguments, arguments.to)
        with output.quiet_pipe():
            print(text)
        return
    if arguments.option:
        raise OptionError("--option applies only to schemas", hint="Add --to")
    if arguments.dialects:
        with _each_warning_once():
            layouts_by_compiler = _read_all(path, arguments)
        with output.quiet_pipe():
            _print_dialects(layouts_by_compiler)
        return
    layouts = _read(path, arguments, arguments.compiler)
    with output.quiet_pipe():
        if arguments.format == "json":
            for layout in layouts:
                for item in layout.root.walk():
                    print(json.dumps(_facts(layout, item)))
        else:
            _print(layouts)


def _read(
    paths: Sequence[str], arguments: CopybookArguments, compiler: str
) -> list[CopybookLayout]:
    """Parse copybooks with the sizes and alignment of a compiler."""
    from trailgate.storage.files.addresses import check_folder, folder_of
    from trailgate.storage.files.copy_members import MemberFinder
    from trailgate.storage.files.text_files import read_source

    stated: dict[str, Any] = {
        "source_format": arguments.source_format,
        "decimal_comma": arguments.decimal_comma,
        "constants": _constants(arguments.constant),
    }
    if arguments.binary_sizes is not None:
        stated["binary_sizes"] = arguments.binary_sizes
    dialect = CobolDialect(**{**COMPILERS[compiler], **stated})
    for folder in arguments.copy_path or ():
        check_folder(folder, "--copy-path")
    folders = [*(arguments.copy_path or ()), *map(folder_of, paths)]
    members = MemberFinder.of(folders, "Add the member's folder: --copy-path FOLDER")
    mentioned: set[str] = set()
    layouts = [
        layout
        for path in paths
        for layout in read_copybook(
            read_source(path),
            source=path,
            dialect=dialect,
            member=members,
            missing=members.missing,
            mentioned=mentioned,
        )
    ]
    # With --dialects the copybooks are read once per compiler.
    if compiler == arguments.compiler:
        warn_of_unused_constants(dialect.constants, mentioned, ", ".join(paths))
    return layouts


def _constants(given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Parse the values of ``--constant``, which are NAME=VALUE. Raises OptionError."""
    try:
        return read_constants(",".join(given))
    except ValueError:
        problem = (
            f"--constant must be NAME=VALUE or NAME=OFF, and each name once, not {', '.join(given)}"
        )
        raise OptionError(problem) from None


def _read_all(
    paths: Sequence[str], arguments: CopybookArguments
) -> dict[str, list[CopybookLayout]]:
    """Parse copybooks for each compiler.

    If some compilers reject them, their errors are printed on stderr.

    Raises the first error if all compilers reject them.
    """
    layouts, refused = {}, {}
    # A construct that one compiler refuses must not hide the results of the others.
    for name in COMPILERS:
        try:
            layouts[name] = _read(paths, arguments, name)
        except DefinitionError as error:
            refused[name] = error
    if not layouts:
        raise next(iter(refused.values()))
    for name, reason in refused.items():
        output.say(f"{name}: {reason}", stderr=True)
    return layouts


class _MessageCollector(logging.Handler):
    """Collects the log messages about copybooks, each once, in order."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: dict[str, None] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Collect the message of a log record."""
        self.messages.setdefault(record.getMessage())


@contextmanager
def _each_warning_once() -> Iterator[None]:
    """Context manager that collects the warnings about copybooks, and logs each once at the end.

    With ``--dialects`` the copybooks are parsed once per compiler, each time with the same
    warnings.
    """
    collector, propagate = _MessageCollector(), COPYBOOK_LOG.propagate
    COPYBOOK_LOG.addHandler(collector)
    COPYBOOK_LOG.propagate = False
    try:
        yield
    finally:
        COPYBOOK_LOG.removeHandler(collector)
        COPYBOOK_LOG.propagate = propagate
        for message in collector.messages:
            LOG.warning("%s", message)


def _schema_text(paths: Sequence[str], arguments: CopybookArguments, form: str) -> str:
    """Return the schema of the records in a form such as CREATE TABLE."""
    from trailgate.cobol.records.record_options import ColumnShape
    from trailgate.mainframe.commands.schemas import FORMS
    from trailgate.mainframe.jobs.options import OPTIONS
    from trailgate.mainframe.jobs.reading import record_schemas

    auto = arguments.source_format is SourceFormat.AUTO
    flags = {
        "copybook": list(paths),
        "copy_path": arguments.copy_path,
        "source_format": None if auto else arguments.source_format,
        "binary_sizes": arguments.binary_sizes,
        "compiler": None if arguments.compiler == "ibm" else arguments.compiler,
        "decimal_comma": arguments.decimal_comma or None,
        "constants": ",".join(arguments.constant) or None,
    }
    named = OPTIONS.match_names(named_values(arguments.option))
    # Flags and --option set the same options, so each may be set only in one way.
    for name in OPTIONS.match_names(flags).keys() & named.keys():
        raise OptionError(f"{name} is given twice, also by --option")
    shape = ColumnShape.FLAT if form == "sql" else ColumnShape.TREE
    return FORMS[form](record_schemas({**flags, **named}, shape=shape))


def _facts(layout: CopybookLayout, field: CopybookField) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "record": layout.name,
        "level": field.level,
        "name": field.name,
        "picture": field.picture or None,
        "type": _type(field),
        "offset": field.offset,
        "length": field.size,
        "occurs": field.occurs.described if field.occurs else None,
        "redefines": field.redefines,
        "key": field.key,
    }
    if field.number is not None:
        facts |= {"digits": field.number.digits, "scale": field.number.scale}
    if field.conditions:
        facts["conditions"] = {c.name: [list(v) for v in c.values] for c in field.conditions}
    return facts


def _print(layouts: list[CopybookLayout]) -> None:
    rows = [
        (
            f"{'  ' * depth}{field.level:02d}",
            field.name,
            field.picture,
            _type(field),
            f"{field.offset:>6}",
            f"{field.size:>6}",
            "key" if field.key else "",
            list(_remarks(field)),
        )
        for layout in layouts
        for depth, field in _walk(layout.root, 0)
    ]
    names = ("level", "name", "picture", "type", "offset", "length", "key", "remarks")
    print_rows(names, rows)


def _print_dialects(by_compiler: Mapping[str, list[CopybookLayout]]) -> None:
    """Print items whose offset or size depends on the compiler, with one column per compiler.

    The size of each record is printed as well.
    """
    rows: list[tuple[str, ...]] = []
    for same in zip(*by_compiler.values(), strict=True):
        rows.append((same[0].name, "record", *(f"{layout.size} bytes" for layout in same)))
        # Every compiler's tree has the same items in the same order, so they can be paired.
        for fields in zip(*(layout.root.walk() for layout in same), strict=True):
            spans = [(field.offset, field.size) for field in fields]
            # Show an item only if its span differs between compilers; the record's size is shown
            # already.
            if fields[0] is not same[0].root and len(set(spans)) > 1:
                shown = (f"{offset}, {size}" for offset, size in spans)
                rows.append((fields[0].name, fields[0].usage.value, *shown))
    print_rows(("item", "type", *by_compiler), rows)
    output.say("Of each item: offset, length")


def _walk(field: CopybookField, depth: int) -> Iterator[tuple[int, CopybookField]]:
    yield depth, field
    for child in field.children:
        yield from _walk(child, depth + 1)


def _type(field: CopybookField) -> str:
    number = field.number
    if number is None:
        return field.usage.value
    form = f"({number.digits},{number.scale})" if number.scale else f"({number.digits})"
    signed = " signed" if number.signed else ""
    return f"{field.usage.value}{form}{signed}"


def _remarks(field: CopybookField) -> Iterator[str]:
    if field.occurs is not None:
        yield f"occurs {field.occurs.described}"
    if field.number is not None and field.number.sign not in (
        SignPosition.NONE,
        SignPosition.TRAILING,
    ):
        yield f"sign {field.number.sign.value}"
    if field.redefines:
        yield f"redefines {field.redefines}"
    if field.date_format:
        yield f"date {field.date_format}"
    for condition in field.conditions:
        yield f"{condition.name} if " + ", ".join(
            f"{low} to {high}" if high else low for low, high in condition.values
        )
