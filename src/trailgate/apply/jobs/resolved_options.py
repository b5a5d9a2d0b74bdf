"""Combine the options of apply with those of a Replicat parameter file.

A parameter file may set the group, the discard file, the mode, and what to do on errors. An option
that is also given on the command line must agree with it. The file's MAP statements choose and
rename tables and columns; without a file, ``--tables`` chooses them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from trailgate.apply.jobs.options import ApplyOptions
from trailgate.apply.jobs.split_operations import Prepare
from trailgate.apply.replicat.mapping import ReplicatMapping, map_to_same_table
from trailgate.apply.replicat.replicat_files import parse_replicat
from trailgate.apply.targets.target import is_target_address
from trailgate.errors import OptionError, Where
from trailgate.expressions.environment_items import items_of
from trailgate.expressions.unsupported_parameters import ParameterRemark
from trailgate.jobs.included_files import (
    add_machine_items,
    find_parameter_file,
    include_reader,
    not_utf8_error,
)
from trailgate.model.table_names import TablePatterns
from trailgate.storage.files.addresses import Address, absolute
from trailgate.storage.files.text_files import read_text_file
from trailgate.trail.reading.images import ReadSelection

DATE_TIME: Final = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True, slots=True)
class ResolvedApplyOptions:
    """The options of apply merged with a Replicat parameter file.

    ``mapping`` contains the file's MAP statements, or is None without a file. ``definitions`` is
    the path in SOURCEDEFS. ``unused`` are parameters of the file that have no effect here.
    ``ignored`` are unsupported parameters that ``ignore_unsupported`` skips.
    """

    options: ApplyOptions
    mapping: ReplicatMapping | None = None
    definitions: str | None = None
    unused: tuple[ParameterRemark, ...] = ()
    ignored: tuple[ParameterRemark, ...] = ()
    ddl: ParameterRemark | None = None  # the parameter that asks for DDL, unless it is ignored

    @property
    def source_file(self) -> str | None:
        """The path of the Replicat parameter file, or None."""
        return None if self.options.params is None else str(self.options.params)

    def mode(self, target: str) -> str:
        """Return the mode of a target table: from its MAP statement, or else from ``--mode``."""
        mapped = None if self.mapping is None else self.mapping.mode(target)
        return mapped or self.options.mode

    @property
    def modes(self) -> frozenset[str]:
        """All modes that tables of the target may have."""
        mapped = frozenset() if self.mapping is None else self.mapping.modes
        return mapped | {self.options.mode}

    def prepare(self) -> Prepare:
        """Return the function that maps operations of source tables to target tables.

        ``@DATENOW`` is the local time of this call.
        """
        if self.mapping is None:
            return map_to_same_table
        return partial(self.mapping.map_block, now=f"{local_time():{DATE_TIME}}")

    def unmatched_patterns(self, names: Collection[str]) -> Sequence[tuple[str, str]]:
        """Return the patterns of ``--tables`` or MAP statements that match none of the names of source tables.

        Each is a pair of its origin and the pattern: ``("rshop.prm line 4, MAP", "HR.*")`` or
        ``("--tables", "HR.*")``.
        """
        if self.mapping is not None:
            stated = self.mapping.patterns
        else:
            tables = ",".join(self.options.tables or ())
            patterns = TablePatterns.read(tables).patterns if tables else ()
            stated = [("--tables", pattern) for pattern in patterns]
        return [
            (origin, pattern)
            for origin, pattern in stated
            if not any(TablePatterns((pattern,)).fits(name) for name in names)
        ]

    @property
    def selection(self) -> ReadSelection:
        """The tables, and the parts of their records, that apply reads from a trail."""
        if self.mapping is not None:
            return ReadSelection(self.mapping.sources)
        patterns = self.options.tables
        return ReadSelection(None if patterns is None else TablePatterns.of(patterns))

    def source(self, trail: Address) -> str:
        """Return the source that a group's position is stored with: the trail, its tables or MAP statements, and the mode (see ``group_sources.py``)."""
        chosen = ""
        if self.options.tables is not None:
            chosen = f"?tables={','.join(sorted(self.options.tables))}"
        if self.mapping is not None:
            chosen = f"?map={self.mapping.name}"
        if self.options.mode != "current":
            chosen += f"{'&' if chosen else '?'}mode={self.options.mode}"
        return f"{absolute(trail)}{chosen}"


def local_time() -> datetime:
    """Return the time of ``@DATENOW`` in MAP statements: the current time in the time zone of this process."""
    return datetime.now(UTC).astimezone()


def check_option_effects(to: str, options: ApplyOptions) -> None:
    """Raise OptionError for an option of apply that has no effect in combination with the others or with this target."""
    # A parameter file may discard operations by REPERROR.
    discards = options.on_error.startswith("discard") or options.params is not None
    if options.discards is not None and not discards:
        problem = f"--discards has no effect with --on-error {options.on_error}"
        raise OptionError(problem, hint="Add --on-error discard, or omit --discards")
    scheme = to.partition(":")[0]
    if options.sizes and is_target_address(to) and scheme != "postgresql":
        problem = f"--sizes applies only to PostgreSQL, but the target is {scheme}"
        raise OptionError(problem, hint="Omit it: text columns there have no lengths")


def resolve_apply_options(options: ApplyOptions) -> ResolvedApplyOptions:
    """Read the Replicat parameter file, if any, and merge its settings into the options of apply.

    Raises OptionError if an option and the file disagree or the file is invalid, and StorageError
    if the file cannot be read.
    """
    if options.params is None:
        if options.ignore_unsupported:
            problem = "ignore_unsupported needs a Replicat parameter file, but none is given"
            raise OptionError(problem, hint="Remove it, or name the file with params")
        return ResolvedApplyOptions(options)
    path = str(options.params)
    try:
        text = read_text_file(path, "parameter file").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8_error(error, path) from None
    parameters = parse_replicat(
        text, path, read=include_reader(path), ignore_unsupported=options.ignore_unsupported
    )
    if options.tables is not None:
        raise OptionError(
            "MAP statements choose the tables, so --tables cannot be used with them",
            where=Where(source=path),
        )
    defaults = {one.name: one.default for one in fields(ApplyOptions)}
    names = ("group", "discards", "on_error", "mode")
    stated = {name: getattr(parameters, name) for name in names}
    chosen: dict[str, Any] = {}
    for name, value in stated.items():
        current = getattr(options, name)
        if value is None or current == value:
            continue
        if current != defaults[name]:
            # The discard file does not affect the tables. A run may use its own file, and ``verify``
            # does so.
            if name == "discards":
                continue
            flag = "--" + name.replace("_", "-")
            problem = f"{flag} is {current}, but the parameter file states {value}"
            raise OptionError(problem, where=Where(source=path), hint="State it in one place")
        chosen[name] = value
    given = replace(options, **chosen)
    around = replace(parameters.environment, group=given.group)
    mapping = ReplicatMapping(
        parameters, add_machine_items(around, items_of(parameters.expressions))
    )
    ddl = None if options.ignore_unsupported else parameters.ddl
    definitions = (
        None if parameters.sourcedefs is None else find_parameter_file(path, parameters.sourcedefs)
    )
    return ResolvedApplyOptions(
        options=given,
        mapping=mapping,
        definitions=definitions,
        unused=parameters.unused,
        ignored=parameters.ignored,
        ddl=ddl,
    )
