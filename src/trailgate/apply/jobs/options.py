"""Declare the options of apply once, for the command line, Python and Spark.

Each field of ``ApplyOptions`` is a flag of ``trailgate apply``, a keyword of ``apply_trail`` and an
option of the Spark format ``trailgate_apply``; ``trailgate.options`` derives them from the fields.
This module imports neither pyarrow nor numpy, so that ``--help`` is fast.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypedDict

from trailgate.options import COUNT, NAMES, PATH, TEXT, Flag, Options, OptionType, field_options

GROUP: Final = "trailgate"


def _position(text: str) -> str:
    """Normalize a position to 20 digits, so that positions compare as text."""
    from trailgate.model.positions import (  # noqa: PLC0415  it imports numpy
        long_position,
        parse_position,
    )

    return long_position(*parse_position(text))


def _types(text: str) -> tuple[str, ...]:
    """Parse the value of ``--column``. Raises ValueError if it is empty."""
    types = split_column_types(text)
    if not types:
        raise ValueError
    return types


def split_column_types(text: str) -> tuple[str, ...]:
    """Split the value of the option ``--column`` at commas outside of parentheses: ``"a=decimal(18,2), b=int"`` → ``("a=decimal(18,2)", "b=int")``."""
    return tuple(one.strip() for one in re.split(r",(?![^()]*\))", text) if one.strip())


POSITION: Final = OptionType("a position", _position)
COLUMN_TYPES: Final = OptionType("a list of columns and types", _types, NAMES.passed)
OnCollision = Literal["stop", "overlay", "insert-missing"]
ModeName = Literal["current", "soft-delete", "history", "scd2", "append"]
SchemaChanges = Literal["evolve", "strict"]
ChangedMaps = Literal["stop", "continue", "catch-up"]
OnError = Literal["stop", "discard", "discard-transaction", "ignore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """The options of apply. Each field is a flag of ``trailgate apply``, in the order of its help."""

    params: Annotated[
        str | None,
        PATH,
        Flag("FILE"),
        "A Replicat parameter file that maps source tables to target tables.",
    ] = None
    tables: Annotated[
        list[str] | None,
        NAMES,
        Flag("PATTERNS"),
        "Apply only these tables, such as HR.*; repeatable.",
    ] = None
    group: Annotated[
        str, TEXT, Flag("NAME"), "The name under which the target keeps its position in the trail."
    ] = GROUP
    mode: Annotated[
        ModeName,
        "What the tables hold: the current rows; deleted rows too, marked as deleted; every version of each row (scd2: with the columns __START_AT and __END_AT); or one row for each operation.",
    ] = "current"
    meta: Annotated[
        bool,
        "Add the columns _op_ts and _position: the time and position of the last operation on each row.",
    ] = False
    on_collision: Annotated[
        OnCollision,
        "What to do if an inserted row already exists, or an updated or deleted row does not: stop, overwrite or ignore it (HANDLECOLLISIONS), or insert the row of an update (INSERTMISSINGUPDATES).",
    ] = "stop"
    after_csn: Annotated[
        str | None,
        TEXT,
        Flag("CSN"),
        "Skip operations up to this CSN, including all transactions that share it, because the tables were loaded as of it.",
    ] = None
    after: Annotated[
        str | None,
        POSITION,
        Flag("POSITION"),
        "Skip operations up to this position, such as 0:679, because the tables already have them.",
    ] = None
    overlay_until: Annotated[
        str | None,
        TEXT,
        Flag("CSN"),
        "Overwrite existing rows and ignore missing ones up to this CSN, because the tables changed while they were loaded.",
    ] = None
    on_error: Annotated[
        OnError,
        "What to do with an operation that cannot be applied: stop; write it, or its whole transaction, to the discard file; or ignore it.",
    ] = "stop"
    discards: Annotated[
        str | None, PATH, Flag("FILE"), "The discard file; default GROUP.discards.jsonl."
    ] = None
    no_create: Annotated[bool, "Fail if a target table does not exist, instead of creating it."] = (
        False
    )
    column: Annotated[
        list[str] | None,
        COLUMN_TYPES,
        Flag("TABLE.COLUMN=TYPE"),
        "The type of a column in created tables, such as decimal(18,2); repeatable.",
    ] = None
    sizes: Annotated[
        bool, "Create text columns in PostgreSQL as varchar with their defined lengths."
    ] = False
    schema_changes: Annotated[
        SchemaChanges,
        "When the trail redefines a table: change the target as far as that is safe (evolve), or stop (strict).",
    ] = "evolve"
    batch_bytes: Annotated[
        int | None,
        COUNT,
        Flag("N", least=1),
        "The number of bytes of the trail in a batch; default 256 MiB. Transactions are never split.",
    ] = None
    changed_maps: Annotated[
        ChangedMaps,
        "If tables are added to a group, by --tables or MAP statements: stop; continue at the group's position, without their earlier operations; or catch up from the trail's beginning.",
    ] = "stop"
    ignore_unsupported: Annotated[
        bool,
        "Ignore unsupported parameters of the Replicat file, and list them.",
    ] = False
    dry_run: Annotated[bool, "Count the changes, without writing them."] = False

    @property
    def csn_limits(self) -> dict[str, str | None]:
        """The values of the options that are CSNs, by option name."""
        return {name: getattr(self, name) for name in ("after_csn", "overlay_until")}


class ApplyKeywords(TypedDict, total=False):
    """The fields of ``ApplyOptions`` as keyword arguments."""

    params: str | None
    tables: Iterable[str] | None
    group: str
    mode: ModeName
    meta: bool
    on_collision: OnCollision
    after_csn: str | None
    after: str | None
    overlay_until: str | None
    on_error: OnError
    discards: str | None
    no_create: bool
    column: Iterable[str] | None
    sizes: bool
    schema_changes: SchemaChanges
    batch_bytes: int | None
    changed_maps: ChangedMaps
    ignore_unsupported: bool
    dry_run: bool


OPTIONS: Final = Options("trailgate_apply", field_options(ApplyOptions))
