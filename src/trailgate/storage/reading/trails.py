"""Read trails as Arrow batches: a complete trail, a part of it, or splits that can be read in parallel.

``read_trail`` finds a trail and reads its splits in threads of this process. A job that distributes
the splits itself, such as the Spark data source, calls ``plan_reading`` and then ``read_split`` for
each. Both decode only what the options select (``options.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final, Literal

import pyarrow as pa

from trailgate.errors import DecodeError, OptionError, TrailgateError, mask_logins
from trailgate.model.csns import above_csn, check_csn
from trailgate.model.positions import parse_position, short_position
from trailgate.model.shapes import Projection, resolve_columns
from trailgate.model.table_names import TablePatterns, describe_no_match
from trailgate.model.tables import Definitions, Table
from trailgate.options import check_arguments
from trailgate.storage.files.addresses import Address
from trailgate.storage.files.trail_files import TrailFiles, TrailPosition, find_trail
from trailgate.storage.reading.options import (
    AS_TEXT,
    OPTIONS,
    ReadOptions,
    columns_for_selection,
    select_rows_by_position,
)
from trailgate.storage.reading.splits import (
    TRAIL_SPLIT_BYTES,
    NoticeLog,
    SplitOptions,
    SplitReader,
    TrailSplit,
    plan_splits,
    read_split_records,
)
from trailgate.storage.reading.threads import run_in_order, thread_count
from trailgate.storage.reading.trail_definitions import find_table, list_latest_tables
from trailgate.storage.reading.trail_file import LONGEST, TrailFileReader
from trailgate.storage.reading.transaction_spans import find_last_begin
from trailgate.trail.format.tokens import LOGCSN
from trailgate.trail.reading.images import ReadSelection
from trailgate.trail.reading.record_table import RECORDS_SCHEMA
from trailgate.trail.records.record import decode_record

__all__ = [
    "EVERYTHING",
    "TRAIL_SPLIT_BYTES",
    "TrailFiles",
    "TrailPosition",
    "TrailSplit",
    "find_trail",
    "plan_reading",
    "plan_splits",
    "read_split",
    "read_trail",
]

EVERYTHING: Final = ReadOptions()
DAMAGED: Final = "trailgate check {} lists the damage, and --salvage OUT saves the rest"
MISSING: Final = "%s: %s (trailgate check lists what is missing)"
NOT_REACHED: Final = (
    "{} is {}, and no transaction of the trail is after it: the last one has the CSN {}"
)
NO_CSN: Final = "{} is {}, but the last transaction of the trail has no CSN"
OUTSIDE: Final = "position {}:{} is {} the trail's {}, which is {}:{}"
SEARCHED_BYTES: Final = 64 << 20  # the most bytes of a trail to search for tables
THREAD_BYTES: Final = 16 << 20  # the size of a thread's splits


@check_arguments
def read_trail(  # noqa: PLR0913  one parameter an option
    path: Address | TrailFiles,
    *,
    table: str | None = None,
    tables: str | Iterable[str] | TablePatterns | None = None,
    records: Literal["operations", "all"] = "operations",
    definitions: Address | Definitions | None = None,
    charset: str | None = None,
    after: str | None = None,
    from_position: str | None = None,
    to_position: str | None = None,
    from_csn: str | None = None,
    to_csn: str | None = None,
    columns: str | Iterable[str] | None = None,
    times: Literal["timestamp", "text"] = "timestamp",
    undo: Literal["show", "exclude"] | None = None,
    open_transactions: Literal["hold", "show"] = "hold",
    limit: int | None = None,
    threads: int | None = None,
) -> pa.RecordBatchReader:
    """Return a reader of a trail's operations in order, for pyarrow, DuckDB, Polars or pandas.

    ``path`` is the trail's prefix, one of its files, or its folder. With ``table`` the rows are
    the operations of that table, in the types of its columns; ``tables`` are patterns such as ``HR.*`` that
    select tables. With ``records="all"`` each record is a row, with its header. ``definitions`` and
    ``charset`` are needed if the trail does not state its own.

    ``after``, ``from_position`` and ``to_position`` limit positions, ``from_csn`` and ``to_csn``
    commit sequence numbers; limits are inclusive except ``after``. ``columns`` names the columns to
    decode and return. ``times="text"`` returns date times of the table as text with all digits, as
    timestamps only have microseconds. ``undo="exclude"`` skips operations that back out an earlier
    one. ``open_transactions="show"`` also returns the last operation of a transaction that is still
    open at the end of a growing trail, although more of it may follow. ``limit`` is the maximum
    number of rows. ``threads`` None uses one thread per core.

    Raises OptionError, StorageError and DefinitionError at once. The reader raises DecodeError at
    damaged bytes.
    """
    named = locals()
    options = ReadOptions.of({row.name: named[row.name] for row in OPTIONS})
    trail = (
        path if isinstance(path, TrailFiles) else find_trail(path, options.definitions, empty=True)
    )
    notices = NoticeLog()
    for notice in option_notices(trail, options):
        notices.once(mask_logins(f"{trail.prefix}: {notice}"))
    return read_with_options(trail, options, limit, threads)


def read_with_options(
    path: Address | TrailFiles,
    options: ReadOptions,
    limit: int | None = None,
    threads: int | None = None,
) -> pa.RecordBatchReader:
    """Return a reader of all rows that the options select from a trail, in order."""
    trail = (
        path if isinstance(path, TrailFiles) else find_trail(path, options.definitions, empty=True)
    )
    many = thread_count(threads)
    with pointing_to_check(trail):
        check_csn_limits(trail, options.csn_limits)
        start, end = bounds = _bounds(trail, options)
        notices = NoticeLog()
        # With a limit, reading ahead in threads would be wasted.
        splits = [TrailSplit(start, end, whole=True)]
        if many > 1 and limit is None:
            splits = plan_splits(trail, THREAD_BYTES, bounds)
        table = find_wanted_table(trail, options)
    read = partial(
        read_split, trail, options=options, table=table, notices=notices, allow_torn=True
    )
    batches = _limit(run_in_order(read, splits, min(many, len(splits))), limit)
    missing = trail.describe_missing()
    if missing:
        batches = _after_notice(notices, (trail.prefix, missing), batches)
    return pa.RecordBatchReader.from_batches(_schema(options, table), batches)


def plan_reading(
    trail: TrailFiles, options: ReadOptions = EVERYTHING, split_bytes: int = TRAIL_SPLIT_BYTES
) -> list[TrailSplit]:
    """Check the options of reading against a trail, and plan the splits to read. Raises OptionError."""
    check_csn_limits(trail, options.csn_limits)
    return plan_splits(trail, split_bytes, _bounds(trail, options))


def option_notices(trail: TrailFiles, options: ReadOptions) -> Iterator[str]:
    """Yield warnings about options of reading: limits outside of the trail, and table patterns that match none of its tables.

    Trails that define no tables have no warnings about patterns.
    """
    yield from _limits_outside(trail, options)
    patterns = () if options.tables is None else options.tables.patterns

    def find_missed(names: set[str]) -> list[str]:
        return [
            pattern
            for pattern in patterns
            if not any(TablePatterns((pattern,)).fits(name) for name in names)
        ]

    if not patterns:
        return
    # Stop reading definitions once every pattern has matched.
    names, are_all = list_latest_tables(trail, lambda found: not find_missed(found), SEARCHED_BYTES)
    searched = "the trail's definitions" if are_all else "the trail's newest files"
    for pattern in find_missed(names) if names else ():
        yield describe_no_match("tables", pattern, sorted(names), searched)


def _limits_outside(trail: TrailFiles, options: ReadOptions) -> Iterator[str]:
    """Yield a warning for each start or end position in the options that is not in the trail."""
    starts = [text for text in (options.after, options.from_position) if text is not None]
    start = TrailPosition(*parse_position(max(starts))) if starts else None
    if start is not None and start > trail.end:
        yield OUTSIDE.format(*start, "after", "end", *trail.end)
    last = options.to_position
    end = None if last is None else TrailPosition(*parse_position(last))
    for position in (start, end):
        if position is not None and position < trail.begin:
            yield OUTSIDE.format(*position, "before", "beginning", *trail.begin)


def check_csn_limits(trail: TrailFiles, limits: Mapping[str, str | None]) -> None:
    """Raise OptionError if a CSN limit does not look like the trail's CSNs (its first CSN is read).

    ``limits`` are the values of options, by their names.
    """
    stated = {name: text for name, text in limits.items() if text is not None}
    if all(text.isascii() and text.isdigit() for text in stated.values()):
        return
    try:
        alone = replace(trail, missing=())  # reading reports missing files
        first = list(read_with_options(alone, ReadOptions(columns=("csn",)), 1, 1))
    except DecodeError:
        return  # reading will raise the same error, or starts after it
    for csn in (value for batch in first for value in batch["csn"].to_pylist()):
        for name, limit in stated.items():
            check_csn(name, limit, csn or "")


def check_after(trail: TrailFiles, position: str | None) -> None:
    """Raise OptionError if a position of 20 digits, after which to start, is after the trail's end."""
    if position is not None and TrailPosition(*parse_position(position)) > trail.end:
        end = f"{trail.end.number}:{trail.end.offset}"
        problem = (
            f"the position {short_position(position)} is after the trail's end, which is {end}"
        )
        raise OptionError(problem)


def csn_limit_notices(trail: TrailFiles, limits: Mapping[str, str | None]) -> Iterator[str]:
    """Yield a warning for each CSN limit that the trail has not passed yet.

    This is the case if its last transaction has no higher CSN, or no CSN at all.
    """
    stated = {name: text for name, text in limits.items() if text is not None}
    if not stated:
        return
    last = _find_last_csn(trail)
    for name, limit in stated.items():
        if last == "":
            yield NO_CSN.format(name, limit)
        elif last is not None and not above_csn(pa.array([last]), limit)[0].as_py():
            yield NOT_REACHED.format(name, limit, last)


def read_split(
    trail: TrailFiles,
    split: TrailSplit,
    options: ReadOptions = EVERYTHING,
    table: Table | None = None,
    notices: NoticeLog | None = None,
    *,
    allow_torn: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Read a split of a trail in constant memory, and yield the operations or rows that the options select.

    ``table`` is the table that the options name, if it is already looked up. ``notices`` are shared
    by all splits of a read, so that each notice is logged once. Records that are missing inside a
    transaction raise DecodeError, or with ``allow_torn`` are a notice. If the trail is damaged, the
    error's hint names ``trailgate check --salvage``, which copies the undamaged transactions.
    """
    with pointing_to_check(trail):
        yield from _of_split(trail, split, options, table, notices, allow_torn=allow_torn)


@contextmanager
def pointing_to_check(trail: TrailFiles) -> Iterator[None]:
    """Add to the hint of a DecodeError that ``trailgate check`` lists the damage of the trail."""
    try:
        yield
    except DecodeError as error:
        if "trailgate check" not in error.hint:
            error.add_hint(DAMAGED.format(trail.prefix))
        raise


def _of_split(
    trail: TrailFiles,
    split: TrailSplit,
    options: ReadOptions,
    table: Table | None,
    notices: NoticeLog | None,
    *,
    allow_torn: bool,
) -> Iterator[pa.RecordBatch]:
    if options.records is not None:
        yield from _chosen_records(trail, split, options, notices)
        return
    projection = _projection(options, table or find_wanted_table(trail, options))
    named = projection.table
    tables = options.tables if named is None else TablePatterns.exactly(named.name)
    also = columns_for_selection(options, typed=named is not None)
    names = {name.removeprefix("_") for name in (*projection.schema.names, *also)}
    wanted = ReadSelection(
        tables,
        projection.needed,
        tokens=not names.isdisjoint(("tokens", "tx_owner", "tx_name")),
        ids=not names.isdisjoint(("tx_id", "csn")),
        positions="position" in names,
        undone=options.undo is None,
    )
    how = SplitOptions(
        wanted,
        options.charset,
        give_open=bool(options.open_transactions),
        allow_torn=allow_torn,
    )
    for changes in SplitReader(trail, split, how, notices).batches():
        batch = select_rows_by_position(projection.rows(changes, also), options)
        if batch.num_rows:
            yield batch.select(projection.schema.names)


def _chosen_records(
    trail: TrailFiles, split: TrailSplit, options: ReadOptions, notices: NoticeLog | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of trail records, with their headers, that the options select."""
    names = resolve_columns(RECORDS_SCHEMA, options.columns)
    for batch in read_split_records(trail, split, notices):
        chosen = select_rows_by_position(batch, options)
        if options.tables is not None:
            chosen = chosen.filter(_mask_tables(chosen["table"], options.tables))
        if chosen.num_rows:
            yield chosen.select(names)


def _after_notice(
    notices: NoticeLog, missing: tuple[str, str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a trail. When the first one is requested, log that trail files are missing.

    ``missing`` contains the values of the notice.
    """
    notices.once(MISSING, *missing)
    yield from batches


def _limit(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield batches of rows up to the total number ``limit`` (None: all)."""
    remaining = limit
    while remaining is None or remaining > 0:
        batch = next(batches, None)
        if batch is None:
            return
        yield batch if remaining is None else batch.slice(0, remaining)
        remaining = None if remaining is None else remaining - batch.num_rows


def find_wanted_table(trail: TrailFiles, options: ReadOptions) -> Table | None:
    """Return the definition of the table in the option ``table``, or None if it is not set."""
    if options.table is None:
        return None
    number = max(_start(trail, options).number, trail.begin.number)
    return find_table(trail, options.table, number)


def _bounds(trail: TrailFiles, options: ReadOptions) -> tuple[TrailPosition, TrailPosition]:
    """Return the range of positions of a trail that contains everything that the options select."""
    start, end = trail.begin, trail.end
    first_position = _start(trail, options)
    # Start at the beginning of the transaction that contains the first position.
    if first_position > start:
        start = find_last_begin(trail, first_position) or start
    if options.to_position is not None:
        last = TrailPosition(*parse_position(options.to_position))
        end = max(start, min(end, last.just_after))
    return start, end


def _start(trail: TrailFiles, options: ReadOptions) -> TrailPosition:
    """Return the first position that the options allow, at most the trail's end."""
    starts = [text for text in (options.after, options.from_position) if text is not None]
    return min(TrailPosition(*parse_position(max(starts))), trail.end) if starts else trail.begin


def schema_of(path: Address | TrailFiles, options: ReadOptions) -> pa.Schema:
    """Return the schema of the rows that the options select from a trail."""
    if options.table is None:
        return _schema(options, None)
    trail = (
        path if isinstance(path, TrailFiles) else find_trail(path, options.definitions, empty=True)
    )
    return _schema(options, find_wanted_table(trail, options))


def _schema(options: ReadOptions, table: Table | None) -> pa.Schema:
    if options.records is not None:
        names = resolve_columns(RECORDS_SCHEMA, options.columns)
        return pa.schema([RECORDS_SCHEMA.field(name) for name in names])
    return _projection(options, table).schema


def _projection(options: ReadOptions, table: Table | None) -> Projection:
    """Return the projection to the columns of the options. ``table`` is the table that they name."""
    return Projection.of(table, options.columns, text_times=options.times == AS_TEXT)


def _find_last_csn(trail: TrailFiles) -> str | None:
    """Return the CSN of the last transaction of a trail.

    Returns "" if the transaction has no CSN, and None if no transaction can be read.
    """
    try:
        begin = find_last_begin(trail, trail.end)
        if begin is None:
            return None
        with TrailFileReader(trail.file(begin.number)) as reader:
            data = reader.read(begin.offset, LONGEST)
            record = decode_record(data, order=reader.order, base=begin.offset)
    except TrailgateError:
        return None  # reading raises the same error, if it reads these bytes
    return (record.token(LOGCSN) or b"").decode("utf-8", "replace")


def _mask_tables(names: pa.Array, tables: TablePatterns) -> pa.Array:
    """Return a mask of a column of table names: True for names that the option ``tables`` selects, NULL if a record has none."""
    encoded = names.dictionary_encode()
    fits = pa.array([tables.fits(name) for name in encoded.dictionary.to_pylist()], pa.bool_())
    return fits.take(encoded.indices)
