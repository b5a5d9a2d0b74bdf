"""The options of apply together with those of a Replicat parameter file."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from trailgate.apply.jobs.options import ApplyOptions
from trailgate.apply.jobs.reading import Prepare, as_it_is
from trailgate.apply.replicat.mapping import ReplicatMapping
from trailgate.apply.replicat.replicat_files import parse_replicat
from trailgate.errors import OptionError, Where
from trailgate.expressions.extract_files import ParameterRemark
from trailgate.expressions.selection import items_of
from trailgate.jobs.machine import add_machine_items
from trailgate.jobs.parameter_includes import find_parameter_file, include_reader
from trailgate.model.table_patterns import TablePatterns
from trailgate.storage.files.addresses import Address, absolute, read_file
from trailgate.trail.reading.images import ReadSelection

DATE_TIME: Final = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True, slots=True)
class MappedOptions:
    """Options as they hold with a parameter file: what it maps, its definitions, and its parameters that change nothing."""

    options: ApplyOptions
    mapping: ReplicatMapping | None = None
    definitions: str | None = None
    unused: tuple[ParameterRemark, ...] = ()
    ignored: tuple[ParameterRemark, ...] = ()
    ddl: ParameterRemark | None = (
        None  # the parameter that asks for DDL, unless it is to be ignored
    )

    @property
    def source_file(self) -> str | None:
        """Return the parameter file."""
        return None if self.options.params is None else str(self.options.params)

    def mode(self, target: str) -> str:
        """Return the mode of a target table, by its name."""
        own = None if self.mapping is None else self.mapping.mode(target)
        return own or self.options.mode

    @property
    def modes(self) -> frozenset[str]:
        """Return the modes that tables of the target may have."""
        own = frozenset() if self.mapping is None else self.mapping.modes
        return own | {self.options.mode}

    def prepare(self) -> Prepare:
        """Return what makes operations of source tables those of target tables; the local time of this call is what @DATENOW gives in them."""
        if self.mapping is None:
            return as_it_is
        return partial(self.mapping.blocks, now=f"{local_time():{DATE_TIME}}")

    def unmatched(self, names: Collection[str]) -> Sequence[tuple[str, str]]:
        """Return the patterns of source tables that no table fits, each with what states it: a MAP statement with its line, or --tables."""
        if self.mapping is not None:
            stated = self.mapping.patterns
        else:
            tables = ",".join(self.options.tables or ())
            own = TablePatterns.read(tables).patterns if tables else ()
            stated = [("--tables", pattern) for pattern in own]
        return [
            (place, pattern)
            for place, pattern in stated
            if not any(TablePatterns((pattern,)).fits(name) for name in names)
        ]

    @property
    def wanted(self) -> ReadSelection:
        """Return which tables of a trail are read."""
        if self.mapping is not None:
            return ReadSelection(self.mapping.sources)
        patterns = self.options.tables
        return ReadSelection(None if patterns is None else TablePatterns.read(",".join(patterns)))

    def source(self, trail: Address) -> str:
        """Return what positions in a target are those of: a trail, and what is taken of it."""
        chosen = ""
        if self.options.tables is not None:
            chosen = f"?tables={','.join(sorted(self.options.tables))}"
        if self.mapping is not None:
            chosen = f"?map={self.mapping.name}"
        if self.options.mode != "current":
            chosen += f"{'&' if chosen else '?'}mode={self.options.mode}"
        return f"{absolute(trail)}{chosen}"


def local_time() -> datetime:
    """Return the time by the clock and in the zone of this process."""
    return datetime.now(UTC).astimezone()


def mapped_options(options: ApplyOptions) -> MappedOptions:
    """Return the options with those of their parameter file; raises OptionError for what both state differently, and StorageError."""
    if options.params is None:
        if options.ignore_unsupported:
            problem = "ignore_unsupported is about a Replicat parameter file, and none is given"
            raise OptionError(problem, hint="Leave it out, or name the file by params")
        return MappedOptions(options)
    path = str(options.params)
    try:
        text = read_file(path, "parameter file").decode()
    except UnicodeDecodeError as error:
        problem = f"byte {error.object[error.start]:#04x} at {error.start} is not UTF-8"
        raise OptionError(problem, where=Where(source=path)) from None
    found = parse_replicat(
        text, path, read=include_reader(path), ignore_unsupported=options.ignore_unsupported
    )
    if options.tables is not None:
        raise OptionError(
            "MAP statements name the tables, and so does --tables", where=Where(source=path)
        )
    defaults = {one.name: one.default for one in fields(ApplyOptions)}
    names = ("group", "discards", "on_error", "mode")
    stated = {name: getattr(found, name) for name in names}
    chosen: dict[str, Any] = {}
    for name, value in stated.items():
        own = getattr(options, name)
        if value is None or own == value:
            continue
        if own != defaults[name]:
            if (
                name == "discards"
            ):  # where discards go changes nothing about the tables: a run may have its own file, as a comparison does
                continue
            flag = "--" + name.replace("_", "-")
            problem = f"{flag} is {own}, and the parameter file states {value}"
            raise OptionError(problem, where=Where(source=path), hint="State it in one place")
        chosen[name] = value
    given = replace(options, **chosen)
    around = replace(found.environment, group=given.group)
    mapping = ReplicatMapping(found, add_machine_items(around, items_of(found.expressions)))
    ddl = None if options.ignore_unsupported else found.ddl
    definitions = None if found.sourcedefs is None else find_parameter_file(path, found.sourcedefs)
    return MappedOptions(given, mapping, definitions, found.unused, found.ignored, ddl)
