"""The options of apply, declared once: flags of the command line, keywords of Python, and rows of Spark's options (``options.py`` states how).

This loads neither pyarrow nor numpy, since the help of the command needs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypedDict

from trailgate.options import COUNT, NAMES, PATH, TEXT, Flag, Kind, Options, field_options

GROUP: Final = "trailgate"


def split_types(text: str) -> tuple[str, ...]:
    """Return the columns and types of a list with commas, of which those in parentheses do not count."""
    return tuple(one.strip() for one in re.split(r",(?![^()]*\))", text) if one.strip())


COLUMN_TYPES: Final = Kind("a list of columns and types", split_types, tuple)
OnCollision = Literal["stop", "overlay", "insert-missing"]
ModeName = Literal["current", "soft-delete", "history", "append"]
SchemaChanges = Literal["evolve", "strict"]
OnError = Literal["stop", "discard", "discard-transaction", "ignore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """How a trail is applied: each field is a flag of ``trailgate apply``, in the order of its help."""

    params: Annotated[
        str | None, PATH, Flag("FILE"), "A Replicat parameter file, which states what lands where."
    ] = None
    tables: Annotated[
        list[str] | None, NAMES, Flag("PATTERNS"), "Only these tables, as HR.*; repeatable."
    ] = None
    group: Annotated[str, TEXT, Flag("NAME"), "What positions in the target are kept by."] = GROUP
    mode: Annotated[
        ModeName,
        "What tables hold: current rows, those that are deleted too, marked, every version of a row, or a row an operation.",
    ] = "current"
    meta: Annotated[
        bool, "Current rows have _op_ts and _position, of the operation that wrote them last."
    ] = False
    on_collision: Annotated[
        OnCollision,
        "Where a row is there that should not be, or is not there: stop, overlay (HANDLECOLLISIONS) or insert-missing (INSERTMISSINGUPDATES).",
    ] = "stop"
    after_csn: Annotated[
        str | None, TEXT, Flag("CSN"), "The tables were loaded with all up to this CSN."
    ] = None
    overlay_until: Annotated[
        str | None,
        TEXT,
        Flag("CSN"),
        "Overlay collisions up to this CSN: the tables were loaded while they changed.",
    ] = None
    on_error: Annotated[
        OnError,
        "What an operation does that cannot be applied: it stops the run, it, or its whole transaction, goes to the file of --discards, or it is ignored.",
    ] = "stop"
    discards: Annotated[
        str | None, PATH, Flag("FILE"), "Where discards go; default GROUP.discards.jsonl."
    ] = None
    no_create: Annotated[bool, "Create no tables: those that are missing are an error."] = False
    column: Annotated[
        list[str] | None,
        COLUMN_TYPES,
        Flag("TABLE.COLUMN=TYPE"),
        "The type of a column of a created table, as decimal(18,2); repeatable.",
    ] = None
    sizes: Annotated[
        bool, "Text columns of tables created in PostgreSQL are varchar of the defined length."
    ] = False
    schema_changes: Annotated[
        SchemaChanges, "What new columns do: they are added, or are an error."
    ] = "evolve"
    batch_bytes: Annotated[
        int | None,
        COUNT,
        Flag("N", least=1),
        "Bytes of the trail that are applied at once, default 256 MiB; a longer transaction is not torn.",
    ] = None
    dry_run: Annotated[bool, "Count what would be written, and write nothing."] = False


class ApplyKeywords(TypedDict, total=False):
    """The fields of ``ApplyOptions`` as keywords of functions."""

    params: str | None
    tables: Iterable[str] | None
    group: str
    mode: ModeName
    meta: bool
    on_collision: OnCollision
    after_csn: str | None
    overlay_until: str | None
    on_error: OnError
    discards: str | None
    no_create: bool
    column: Iterable[str] | None
    sizes: bool
    schema_changes: SchemaChanges
    batch_bytes: int | None
    dry_run: bool


OPTIONS: Final = Options("trailgate_apply", field_options(ApplyOptions))
