"""Apply discarded operations again, from a discard file that the user has repaired.

The operations are applied by a separate group, ``GROUP.discards``, so the position in the trail
does not change. The positions of that group count files: the second applied file has number 2, and
the first eight hex digits of the file's SHA-256 digest take the place of the offset. If a killed
run committed only some tables, these digits show which file each table contains.

A repaired operation is older than the operations that the trail has applied since. If rows store
the position of their last operation (``meta``), an operation on a row that has changed since is an
error. Otherwise this cannot be checked, so the user has to ask for it with ``force``. The stored
position also contains the digest of the last file. If a file begins with the content of that file,
its first lines were applied before and are skipped, so a discard file may grow between two runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Unpack

import numpy as np
import pyarrow as pa

from trailgate.apply.effects.modes import VERSIONED
from trailgate.apply.effects.operation_errors import IGNORE, STOP
from trailgate.apply.jobs.discards import (
    IMAGES,
    REASON,
    find_applied,
    get_discard_path,
    hash_discard_file,
)
from trailgate.apply.jobs.options import OPTIONS, ApplyKeywords, ApplyOptions
from trailgate.apply.jobs.reports import ApplyReport
from trailgate.apply.jobs.resolved_options import resolve_apply_options
from trailgate.apply.jobs.split_operations import SplitOperations, SplitWork
from trailgate.apply.jobs.tables import TargetTables
from trailgate.apply.targets.target import DISCARDS, AppliedPosition
from trailgate.errors import DecodeError, OptionError, TrailgateError, Where
from trailgate.model.changes import OPERATIONS_SCHEMA, ChangeBatch
from trailgate.model.operations_table import from_operations
from trailgate.model.positions import format_positions, parse_position
from trailgate.model.tables import Definitions
from trailgate.model.transactions import transaction_indicators
from trailgate.options import check_arguments, list_names
from trailgate.storage.files.addresses import Address
from trailgate.storage.files.text_files import read_file
from trailgate.storage.files.trail_files import TrailFiles, find_trail
from trailgate.storage.reading.trail_definitions import TrailDefinitions

NAMES: Final = frozenset((REASON, *OPERATIONS_SCHEMA.names))
ASKED: Final = "Check whether their rows have changed since, and then apply with --force. Tables with --meta are checked by position"

SKIPPED: Final = "lines of {} that were applied before were skipped: {}"


@check_arguments
@list_names(ApplyKeywords, OPTIONS)
def apply_repaired(
    trail: Address,
    to: str,
    file: Address,
    *,
    force: bool = False,
    definitions: Address | Definitions | None = None,
    **options: Unpack[ApplyKeywords],
) -> ApplyReport:
    """Apply the operations of a discard file, in the order of its lines, as one batch, and return a report.

    Lines that the last file of this group had too, at the beginning of this one, are skipped with a
    notice. Consecutive lines with the same ``tx_id`` are one transaction. Use the same options as
    for the trail.

    Without ``force``, rows must have positions (``meta``), and an operation is an error if a later
    operation has changed its row since. A row that does not exist counts as unchanged.

    Raises OptionError if both ``force`` and ``meta`` are missing, or if all lines of this file were
    applied with the last one; ApplyError if a row was changed since; DecodeError with the line
    number if a line is not an operation; and everything that ``apply_trail`` raises.
    """
    given = ApplyOptions(**OPTIONS.read(options))
    _check_options(given, force=force)
    mapped = resolve_apply_options(replace(given, after_csn=None, after=None, overlay_until=None))
    content = read_file(file, "file of discards")
    files = find_trail(trail, definitions or mapped.definitions)
    numbered = list(_rows(content, str(file)))
    batch = _batch(numbered, str(file), files)
    group = replace(mapped.options, group=f"{mapped.options.group}{DISCARDS}")
    _check_own_discards(group, str(file))
    source = f"discards of {mapped.source(trail)}"
    digest = hash_discard_file(content)
    with closing(_RepairedTables(to, group, source, mapped.mapping)) as tables:
        done = tables.done
        rest = _skip_applied(content, numbered, done, str(file))
        if not rest:
            return ApplyReport()
        if len(rest) < len(numbered):
            batch = _batch(rest, str(file), files)
        # A position such as 0000000002 0305419896: the second file, and the first eight hex digits
        # of its digest (12345678) as a decimal number.
        number = 1 if done is None else parse_position(done.position)[0] + 1
        at = format_positions(number, np.array([int(digest[:8], 16)]))[0].as_py()

        work = SplitWork(
            files,
            source,
            mapped.selection,
            {},
            extend=tables.extend,
            prepare=mapped.prepare(),
            keep=tables.keeps_rows,
            fold_rows=None,
        )
        read = tables.read(lambda: [replace(work, tables=tables.known).read_batches([batch])])
        last = read.last
        if last is None:
            return ApplyReport()
        read = _without_applied(read, tables, at)
        if not force:
            tables.check_unchanged(read)
        report = tables.apply(replace(read, last=replace(last, position=at, csn=digest)))
        skipped = len(numbered) - len(rest)
        return report + ApplyReport(notices=(SKIPPED.format(file, skipped),) if skipped else ())


def _check_options(given: ApplyOptions, *, force: bool) -> None:
    """Raise OptionError if the options of apply do not suit repaired operations."""
    if given.mode in VERSIONED:
        problem = f"repaired operations cannot be applied with --mode {given.mode}: their versions would begin before later ones"
        raise OptionError(problem)
    if not (force or given.meta):
        raise OptionError("repaired operations could overwrite later changes", hint=ASKED)


class _RepairedTables(TargetTables):
    """The target's tables for repaired operations: their positions count discard files and are not positions in a trail."""

    by_position = False


def _check_own_discards(options: ApplyOptions, file: str) -> None:
    """Raise OptionError if the run would write operations that fail again to the file that it reads."""
    own = Path(get_discard_path(options)).absolute()
    if options.on_error not in (STOP, IGNORE) and own == Path(file).absolute():
        problem = "this is also the discard file of the run: operations that fail again would be written to the file that is being read"
        raise OptionError(
            problem, where=Where(source=file), hint="Name another file with --discards"
        )


def _skip_applied(
    content: bytes,
    numbered: Sequence[tuple[int, dict[str, Any]]],
    done: AppliedPosition | None,
    file: str,
) -> Sequence[tuple[int, dict[str, Any]]]:
    """Return the numbered lines of a discard file that were not applied before. Raises OptionError if all were."""
    # Positions of this group store the digest of the last file in place of the CSN.
    applied = content[: find_applied(content, None if done is None else done.csn)]
    rest = [one for one in numbered if one[0] > len(applied.splitlines())]
    if applied and not rest:
        hint = "Name another file, or repair further operations in this one"
        raise OptionError("this file was already applied", where=Where(source=file), hint=hint)
    return rest


def _without_applied(read: SplitOperations, tables: TargetTables, at: str) -> SplitOperations:
    """Remove repaired operations on tables that already contain this discard file, whose position is ``at``.

    There are such tables if a run was killed after it had committed only some tables. Raises
    OptionError if that run applied a different file.
    """
    ahead = {name: one for name, one in tables.table_positions.items() if one > tables.done_before}
    for name, one in ahead.items():
        if one != at:
            problem = "a run was killed while it applied another file, which is in this table but may not be in others"
            raise OptionError(
                problem, where=Where(table=name), hint="Apply that file again, unchanged"
            )
    operations = {
        name: table_operations
        for name, table_operations in read.operations.items()
        if name not in ahead
    }
    return replace(read, operations=operations)


def _batch(
    numbered: Sequence[tuple[int, dict[str, Any]]], source: str, files: TrailFiles
) -> ChangeBatch:
    """Convert the lines of a discard file, with their numbers, to operations. The trail defines their tables. Raises DecodeError."""
    if not numbered:
        return ChangeBatch([], 0)
    rows = [row for _, row in numbered]
    ids = [row.get("tx_id") for row in rows]
    # A row begins a transaction if its ID differs from the row before, and ends one if the next row
    # begins one.
    first = np.array([at == 0 or ids[at - 1] != one for at, one in enumerate(ids)])
    letters = transaction_indicators(first, np.append(first[1:], True)).tolist()
    for row, letter in zip(rows, letters, strict=True):
        row["tx_ind"] = chr(letter)
    try:
        table = pa.Table.from_pylist(rows, OPERATIONS_SCHEMA).combine_chunks()
        return from_operations(table.to_batches()[0], TrailDefinitions(files))
    except TrailgateError as error:
        # ``record`` counts rows. Users need the line of the file, which may have blank lines.
        record = error.where.record
        line = None if record is None else numbered[record][0]
        error.where = replace(error.where, record=None, source=source, line=line)
        raise
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DecodeError(str(error), where=Where(source=source)) from None


def _rows(content: bytes, source: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Parse each line of a discard file to a row of the operations table, and yield it with its line number."""
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        where = Where(source=source, line=number)
        try:
            parsed = json.loads(line)
            if not isinstance(parsed, dict):
                raise DecodeError("the line is not an object", where=where)
            unknown = sorted(set(parsed) - NAMES)
            if unknown:
                raise DecodeError(f"an operation has no field {unknown[0]}", where=where)
            row = {name: value for name, value in parsed.items() if name != REASON}
            for name in IMAGES:
                if name in row:
                    row[name] = _entries(row[name], name, where)
            row["op_ts"] = datetime.fromisoformat(row["op_ts"])
        except KeyError as error:
            raise DecodeError(f"the operation has no {error.args[0]}", where=where) from None
        except (ValueError, TypeError, RecursionError) as error:
            problem = " ".join(str(error).split())
            raise DecodeError(f"the line is not an operation: {problem}", where=where) from None
        yield number, row


def _entries(value: Any, name: str, where: Where) -> list[tuple[str, str | None]]:
    if not isinstance(value, dict):
        raise DecodeError(f"{name} is not an object", where=where)
    for column, text in value.items():
        if text is not None and not isinstance(text, str):
            problem = f"the value of {column} in {name} is {text!r}, not a string"
            raise DecodeError(problem, where=where)
    return list(value.items())
