"""Publish a trail's operations as messages in files of a folder.

A later run continues after the last one.

The folder's state file records the position of the last published transaction. A run reads the
operations after it, passes them to the format's writer batch by batch, and holds back a transaction
that has not ended. Its files are published together with the new position.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import pyarrow.compute as pc

from trailgate.arrays import Mask
from trailgate.capture.formats import publish_options, writer_for
from trailgate.errors import OptionError, did_you_mean, mask_logins
from trailgate.messages.publishing import MessageWriter
from trailgate.model.changes import ChangeBatch
from trailgate.model.table_patterns import TablePatterns
from trailgate.model.transactions import OperationDropper, count_rows_to_last_end
from trailgate.options import check_arguments
from trailgate.publish.senders.folder import (
    FolderState,
    MessageFileWriter,
    check_folder,
    message_folder,
)
from trailgate.storage.files.trail_files import TrailFiles, find_trail
from trailgate.storage.reading.options import POSITION, ReadOptions
from trailgate.storage.reading.splits import SplitReader, TrailSplit
from trailgate.storage.reading.trails import plan_reading
from trailgate.storage.writing.table_writing import Counts, add_counts, count_operations

FILE_BYTES: Final = 64 << 20
WHOLE_TRAIL: Final = 1 << 62  # a split size with which the complete trail is one split


@dataclass(frozen=True, slots=True)
class PublishSummary:
    """The result of a publication: operations by table and type, messages, and the files written.

    ``position`` is the position of the last published operation; a later run continues after it.
    ``open_operations`` belong to a transaction that has not ended, and are left for a later run.
    ``unmatched`` are the table patterns that match no table in the data.
    """

    target: str
    format: str
    counts: Counts
    messages: int = 0
    transactions: int = 0
    operations: int = 0
    open_operations: int = 0
    files: tuple[str, ...] = ()
    position: str = ""
    unmatched: tuple[str, ...] = ()


def plan_publishing(trail: TrailFiles, after: str | None, split_bytes: int) -> list[TrailSplit]:
    """Return the splits with the operations after a position.

    Each owns the transactions that begin in it.
    """
    return plan_reading(trail, ReadOptions(after=after), split_bytes)


def read_changes(
    trail: TrailFiles,
    splits: Sequence[TrailSplit],
    after: str | None = None,
    tables: TablePatterns | None = None,
    seen: set[str] | None = None,
) -> Iterator[ChangeBatch]:
    """Yield the operations after a position, of these tables.

    Transaction indicators are adapted to the operations that remain of each transaction. The names
    of all tables with operations are added to ``seen``.
    """

    def select(batch: ChangeBatch) -> Mask:
        keep = np.zeros(batch.rows, bool)
        for block in batch.blocks:
            if seen is not None:
                seen.add(block.table.name)
            if tables is None or tables.fits(block.table.name):
                # `order` are the block's row numbers in the batch.
                keep[block.order] = True
                if after:
                    later = pc.greater(block.position, after).to_numpy(zero_copy_only=False)
                    keep[block.order] = later
        return keep

    takes_all, remaining = tables is None and not after, OperationDropper()
    for split in splits:
        for batch in SplitReader(trail, split).batches():
            yield batch if takes_all else remaining.take(batch, select(batch))


Progress = Callable[[int], None]


@check_arguments
def publish_trail(  # noqa: PLR0913  one parameter an option
    trail: str | os.PathLike[str] | TrailFiles,
    to: str | os.PathLike[str],
    format: str = "delimited",  # noqa: A002  the option's name
    *,
    tables: str | Iterable[str] | TablePatterns | None = None,
    after: str | None = None,
    definitions: str | os.PathLike[str] | None = None,
    message_per: Literal["json", "line"] = "json",
    file_bytes: int = FILE_BYTES,
    content: Literal["transaction", "row"] | None = None,
    max_message_bytes: int | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> PublishSummary:
    """Publish the operations of a trail as messages, into files of a folder, and return a summary.

    ``format`` is "delimited", "xml", "json" or "debezium", and ``options`` are the options of that
    format (docs/publications.md). ``content`` is "transaction" or "row", the unit of a message, and
    ``max_message_bytes`` the limit of its size. The files are JSON lines with a body, and headers
    if there are any; with ``message_per="line"`` each line is a message as it is. ``tables`` are
    patterns such as ``HR.*``. ``after`` is the position after which the first run starts. A later
    run with the same options continues after the last published transaction. ``progress`` is called
    with the number of operations.

    Raises OptionError, StorageError if the folder contains something else, and EncodeError for a
    value that the format cannot represent. Complete files written before an error stay, and a later
    run continues after them.
    """
    if message_per not in ("json", "line"):
        raise OptionError(f"message_per must be json or line, not {message_per!r}")
    if after is not None:
        after = POSITION.read(after)
    chosen = _patterns(tables)
    stated = {"content": content, "max_message_bytes": max_message_bytes, **(options or {})}
    format_options = publish_options(
        format, {name: value for name, value in stated.items() if value is not None}
    )
    source = trail if isinstance(trail, TrailFiles) else find_trail(trail, definitions)
    patterns = ",".join(chosen.patterns) if chosen else ""
    form = {"format": format.casefold(), "message_per": message_per, "tables": patterns}
    # the state file records how messages are written, and refuses another form later
    form |= {name: str(value) for name, value in asdict(format_options).items() if name != "now"}
    folder = message_folder(to)
    with folder.locked():
        known = check_folder(folder, mask_logins(source.prefix), form)
        files = MessageFileWriter(folder, known, bare=message_per == "line", file_bytes=file_bytes)
        run = _Run(files, writer_for(format, format_options), progress)
        # `after` applies only to the first run; later runs continue at the state's position.
        begin = known.position or after
        seen = set[str]()
        try:
            # One split, because messages are written in the order of the trail.
            splits = plan_publishing(source, begin, WHOLE_TRAIL)
            for batch in read_changes(source, splits, begin, chosen, seen):
                run.take(batch)
            run.finish()
        except BaseException:
            files.discard()
            raise
        files.close()
    summary = run.summary(folder.name, format.casefold(), known)
    return replace(summary, unmatched=_find_unmatched(chosen, seen))


def _find_unmatched(chosen: TablePatterns | None, seen: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns that match none of the tables read, or none if no table was read."""
    names = sorted(seen)
    patterns = chosen.patterns if chosen and names else ()
    wrong = [one for one in patterns if not any(map(TablePatterns((one,)).fits, names))]
    return tuple(f"{one}. {did_you_mean(one, names)}".rstrip(". ") for one in wrong)


def _patterns(tables: str | Iterable[str] | TablePatterns | None) -> TablePatterns | None:
    if tables is None or isinstance(tables, TablePatterns):
        return tables
    return TablePatterns.read(tables) if isinstance(tables, str) else TablePatterns(tuple(tables))


class _Run:
    """Write the messages of batches.

    Messages of a transaction that has not ended are not committed.
    """

    def __init__(
        self, files: MessageFileWriter, writer: MessageWriter, progress: Progress | None
    ) -> None:
        self._files, self._writer, self._progress = files, writer, progress
        self._state = files.published
        self._open = FolderState("")  # the counts of the transaction that has not ended

    def take(self, batch: ChangeBatch) -> None:
        """Write the messages that a batch completes."""
        messages = self._writer.write(batch)
        stop = count_rows_to_last_end(batch.tx_indicators())
        if not stop:
            self._add_open(batch, 0, batch.rows, len(messages))
            self._files.append(messages)
            return
        # messages.order is the row after which each message is complete; up to ``stop`` all
        # transactions have ended, so these messages can be committed
        safe = int(np.searchsorted(messages.order, stop))
        self._files.append(messages, 0, safe)
        self._add_open(batch, 0, stop, safe)
        self._state = _sum(self._state, self._open, _position(batch, stop - 1))
        self._open = FolderState("")
        self._files.commit(self._state)
        # The messages after it wait for the end of their transaction.
        self._files.append(messages, safe)
        self._add_open(batch, stop, batch.rows, len(messages) - safe)
        if self._progress is not None:
            self._progress(self._state.operations)

    def finish(self) -> None:
        """Write the messages that the writer still buffers, if their transaction has ended."""
        rest = self._writer.finish()
        # Messages of an open transaction are left for the next run.
        if len(rest) and not self._open.operations:
            self._files.append(rest)
            self._state = replace(self._state, messages=self._state.messages + len(rest))
            self._files.commit(self._state)

    def summary(self, target: str, name: str, before: FolderState) -> PublishSummary:
        """Return the result of this run, without the counts of earlier runs."""
        state = self._state
        counts = {
            table: {
                kind: count - before.counts.get(table, {}).get(kind, 0)
                for kind, count in kinds.items()
                if count != before.counts.get(table, {}).get(kind, 0)
            }
            for table, kinds in state.counts.items()
        }
        return PublishSummary(
            target=target,
            format=name,
            counts={table: counts[table] for table in sorted(counts) if counts[table]},
            messages=state.messages - before.messages,
            transactions=state.transactions - before.transactions,
            operations=state.operations - before.operations,
            open_operations=self._open.operations,
            files=tuple(self._files.names),
            position=state.position,
        )

    def _add_open(self, batch: ChangeBatch, begin: int, stop: int, messages: int) -> None:
        counts, transactions = count_operations(batch, begin, stop)
        counted = FolderState(
            "",
            messages=messages,
            operations=stop - begin,
            transactions=transactions,
            counts=counts,
        )
        self._open = _sum(self._open, counted, "")


def _sum(state: FolderState, more: FolderState, position: str) -> FolderState:
    return replace(
        state,
        position=position,
        messages=state.messages + more.messages,
        operations=state.operations + more.operations,
        transactions=state.transactions + more.transactions,
        counts=add_counts(state.counts, more.counts),
    )


def _position(batch: ChangeBatch, order: int) -> str:
    block, row = batch.find(order)
    return str(block.position[row].as_py())
