"""Discarded operations that were repaired, applied from their file of JSON lines.

They are applied by a group of their own, ``GROUP.discards``, so that the position in the trail stays. Its positions count the files, each with digits of the file's digest, by which a table that commits
alone shows that it has a file's operations. Where rows keep the position of what wrote them (``meta``), an operation on a row that was
changed since is refused; else nothing states whether it was, and operations are applied only where that is asked for. The digest of a file that was applied is kept with the position: the same file is not applied twice in a row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Unpack

import numpy as np
import pyarrow as pa

from trailgate.apply.effects.faults import IGNORE, STOP
from trailgate.apply.jobs.discards import IMAGES, REASON, content_digest, discard_path
from trailgate.apply.jobs.options import OPTIONS, ApplyKeywords, ApplyOptions
from trailgate.apply.jobs.parameters import mapped_options
from trailgate.apply.jobs.reading import SplitRead, SplitWork
from trailgate.apply.jobs.tables import ApplyReport, TargetTables
from trailgate.columnar.digits import format_positions, parse_position
from trailgate.errors import DecodeError, OptionError, TrailgateError, Where
from trailgate.model.changes import OPERATIONS_SCHEMA, ChangeBatch, indicators
from trailgate.model.operations_table import from_operations
from trailgate.model.tables import Definitions
from trailgate.options import check_arguments, list_names
from trailgate.storage.files.addresses import Address, read_file
from trailgate.storage.files.trail_files import TrailFiles, find_trail
from trailgate.storage.reading.trail_definitions import TrailDefinitions

NAMES: Final = frozenset((REASON, *OPERATIONS_SCHEMA.names))
ASKED: Final = "Their rows may have been changed since: look, and then apply them with --force; tables of --meta state it"


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
    """Apply the operations of a file of discards, in the order of its lines, as one batch; return what was done.

    Lines of one ``tx_id`` that follow one another are a transaction. The options are those that the trail was applied with.

    Without ``force`` rows have to keep their positions (``meta``), and none may have been changed since by an operation after the repaired one; a row that is not there counts as not changed.

    Raises OptionError without ``force`` and ``meta``, ApplyError for a row that was changed since, OptionError for a file that was the last one to be applied; DecodeError with the line for what is not an operation; and what ``apply_trail`` raises.
    """
    given = ApplyOptions(**OPTIONS.read(options))
    if given.mode == "history":
        problem = "repaired operations are not applied to --mode history: versions would begin before those that follow them"
        raise OptionError(problem)
    if not (force or given.meta):
        raise OptionError("repaired operations are not applied unasked", hint=ASKED)
    mapped = mapped_options(replace(given, after_csn=None, overlay_until=None))
    content = read_file(file, "file of discards")
    files = find_trail(trail, definitions or mapped.definitions)
    batch = _batch(content, str(file), files)
    group = replace(mapped.options, group=f"{mapped.options.group}.discards")
    if (
        group.on_error not in (STOP, IGNORE)
        and Path(discard_path(group)).absolute() == Path(str(file)).absolute()
    ):
        problem = (
            "operations that cannot be applied would be discarded to the file that they are from"
        )
        raise OptionError(
            problem, where=Where(source=str(file)), hint="--discards names another file"
        )
    source = f"discards of {mapped.source(trail)}"
    digest = content_digest(content)
    with closing(_RepairedTables(to, group, source, mapped.mapping)) as tables:
        done = tables.done
        if done is not None and done.csn == digest:
            raise OptionError("this file is applied", where=Where(source=str(file)))
        if not batch.rows:
            return ApplyReport()
        number = 1 if done is None else parse_position(done.position)[0] + 1
        at = format_positions(number, np.array([int(digest[:8], 16)]))[0].as_py()

        work = SplitWork(
            files,
            source,
            mapped.wanted,
            {},
            extend=tables.extend,
            prepare=mapped.prepare(),
            keep=tables.keeps,
            fold_rows=None,
        )
        read = tables.read(lambda: [replace(work, tables=tables.known).read_batches([batch])])
        last = read.last
        if last is None:
            return ApplyReport()
        read = _without_applied(read, tables, at)
        if not force:
            tables.check_unchanged(read)
        return tables.apply(replace(read, last=replace(last, position=at, csn=digest)))


class _RepairedTables(TargetTables):
    """Tables whose positions count files."""

    by_position = False


def _without_applied(read: SplitRead, tables: TargetTables, at: str) -> SplitRead:
    """Return operations without those on tables that have them: a run that applied the same file was killed when these were committed, and others not yet.

    Raises OptionError if it applied another file.
    """
    ahead = {name: one for name, one in tables.landed.items() if one > tables.done_before}
    for name, one in ahead.items():
        if one != at:
            problem = "a run was killed while it applied another file, which this table has and others may not have"
            raise OptionError(
                problem, where=Where(table=name), hint="Apply that file again as it was"
            )
    operations = {name: own for name, own in read.operations.items() if name not in ahead}
    return replace(read, operations=operations)


def _batch(content: bytes, source: str, files: TrailFiles) -> ChangeBatch:
    """Return the operations of lines, whose tables a trail defines; raises DecodeError."""
    numbered = list(_rows(content, source))
    if not numbered:
        return ChangeBatch([], 0)
    rows = [row for _, row in numbered]
    ids = [row.get("tx_id") for row in rows]
    first = np.array([at == 0 or ids[at - 1] != one for at, one in enumerate(ids)])
    letters = indicators(first, np.append(first[1:], True)).tolist()
    for row, letter in zip(rows, letters, strict=True):
        row["tx_ind"] = chr(letter)
    try:
        table = pa.Table.from_pylist(rows, OPERATIONS_SCHEMA).combine_chunks()
        return from_operations(table.to_batches()[0], TrailDefinitions(files))
    except TrailgateError as error:
        record = error.where.record
        line = None if record is None else numbered[record][0]
        error.where = replace(error.where, record=None, source=source, line=line)
        raise
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DecodeError(str(error), where=Where(source=source)) from None


def _rows(content: bytes, source: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each line, with its number, as a row of the operations table."""
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        where = Where(source=source, line=number)
        try:
            found = json.loads(line)
            if not isinstance(found, dict):
                raise DecodeError("the line is not an object", where=where)
            unknown = sorted(set(found) - NAMES)
            if unknown:
                raise DecodeError(f"an operation has no {unknown[0]}", where=where)
            row = {name: value for name, value in found.items() if name != REASON}
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
            problem = f"the value of {column} in {name} is {text!r}, and not a text"
            raise DecodeError(problem, where=where)
    return list(value.items())
