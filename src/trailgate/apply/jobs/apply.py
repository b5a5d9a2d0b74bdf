"""A trail applied to the tables of a target, batch by batch, each operation once.

A batch ends where a transaction ends (storage/reading/trail_stream.py). Its operations are sorted by target table, those that a table has already are left out by the position that the
target keeps, and what remains becomes one effect a key (``apply``), which the target writes and commits together with the batch's last position. A run that was stopped anywhere continues
where the target's positions say, however its batches are cut then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self, Unpack

from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.jobs.groups import GroupSource
from trailgate.apply.jobs.metrics import bytes_after
from trailgate.apply.jobs.options import OPTIONS, ApplyKeywords, ApplyOptions
from trailgate.apply.jobs.parameters import mapped_options
from trailgate.apply.jobs.reading import FOLD_ROWS, SplitRead, SplitWork
from trailgate.apply.jobs.retries import Retries, retried
from trailgate.apply.jobs.tables import ApplyReport, TargetTables
from trailgate.apply.targets.target import Position, Target
from trailgate.columnar.digits import long_position, parse_position, short_position
from trailgate.errors import (
    OptionError,
    StorageError,
    TargetUnavailableError,
    TrailgateError,
    Where,
)
from trailgate.jobs.backoff import PATIENCE
from trailgate.model.table_patterns import TablePatterns, describe_no_match
from trailgate.model.tables import Definitions
from trailgate.options import check_arguments, list_names
from trailgate.storage.files.addresses import Address
from trailgate.storage.files.trail_files import TrailFiles, TrailPosition, find_trail
from trailgate.storage.reading.message_stream import BatchLimit
from trailgate.storage.reading.splits import NoticeLog, TrailSplit
from trailgate.storage.reading.stored_position import StoredPosition, record_digest
from trailgate.storage.reading.threads import run_in_order, thread_count
from trailgate.storage.reading.trail_definitions import TrailDefinitions
from trailgate.storage.reading.trail_file import first_ddl, latest_tables, list_defined_tables
from trailgate.storage.reading.trail_rest import TrailRest, first_file_notices
from trailgate.storage.reading.trail_stream import EARLIEST, TrailStream

LOG: Final = logging.getLogger(__name__)
SEARCHED_BYTES: Final = 1 << 30  # of the newest files, for tables that a pattern fits
UNDEFINED: Final = "no operation of a table that fits; the trail defines no tables, so that their names are not known"
SHOWN: Final = 80  # characters of a DDL statement
SPLIT_BYTES: Final = 8 << 20
BATCH_BYTES: Final = 256 << 20
UNFOLDED_BYTES: Final = 64 << 20
Progress = Callable[["ApplyReport"], None]


@check_arguments
@list_names(ApplyKeywords, OPTIONS)
def apply_trail(
    trail: Address,
    to: str,
    *,
    definitions: Address | Definitions | None = None,
    threads: int | None = None,
    patience: float = PATIENCE,
    progress: Progress | None = None,
    **options: Unpack[ApplyKeywords],
) -> ApplyReport:
    """Apply what a trail has, up to its last whole transaction, to the tables of a target; return what was done.

    ``to`` is an address as ``delta:lake/`` or ``duckdb:shop.duckdb``. A later run with the same ``group`` continues where this one ends. ``tables`` are patterns such as ``HR.*``.
    ``on_collision`` states what is done where a row is there that should not be, or is not there; ``overlay`` does so up to the CSN ``overlay_until`` in any case.
    Operations up to ``after_csn`` are in the tables already. What cannot be applied stops the run, or goes, with ``on_error="discard"`` alone and with ``"discard-transaction"`` as a
    whole transaction, to the JSON lines of ``discards``. ``progress`` is called after each batch.
    A target that cannot be reached, is locked or conflicts with another writer is tried again for ``patience`` seconds.

    Raises OptionError, TargetUnavailableError after ``patience``, StorageError for what cannot be read or written, DefinitionError for tables that do not fit, and ApplyError for an operation that does not fit the rows of
    its table; then nothing of its batch is applied where the target has transactions, and the batches before stay.
    """
    given = ApplyOptions(**OPTIONS.read(options))
    with ApplyRun(
        trail,
        to,
        given,
        definitions=definitions,
        reading=Reading(threads),
        retries=Retries(patience),
    ) as run:
        return run.to_end(progress)


@dataclass(frozen=True, slots=True)
class Reading:
    """How the splits of a batch are read: by threads of this process, unless ``run`` is another way."""

    threads: int | None = None
    split_bytes: int = SPLIT_BYTES
    fold_rows: int | None = FOLD_ROWS
    batch_bytes: int = BATCH_BYTES

    def run(self, work: SplitWork, splits: Sequence[TrailSplit]) -> Iterable[SplitRead]:
        """Yield what each split has, in their order."""
        threads = min(thread_count(self.threads), len(splits))
        return run_in_order(lambda split: [work.read(split)], splits, threads)


class ApplyRun:
    """A run that applies a trail: batches one after another."""

    def __init__(  # noqa: PLR0913  what is read, where it goes, and how
        self,
        trail: Address,
        to: str,
        options: ApplyOptions,
        *,
        definitions: Address | Definitions | None = None,
        reading: Reading | None = None,
        target: Target | None = None,
        retries: Retries | None = None,
    ) -> None:
        self.mapped = mapped = mapped_options(options)
        self._options, self._reading = mapped.options, reading or Reading()
        self._find = partial(find_trail, trail, definitions or mapped.definitions)
        self._source = mapped.source(self._find().prefix)
        self._stream = TrailStream(self._find)
        self._notices = NoticeLog()
        self.retries = retries or Retries()
        self._open = partial(
            TargetTables,
            to,
            self._options,
            self._source,
            mapped.mapping,
            target,
            is_absent=self._is_absent,
        )
        self._can_open = target is None  # one that was passed in is somebody else's to open
        self._position: Position | None = None
        self._opened: TargetTables | None = None
        # Of a trail that is applied from its beginning.
        self.first_file_notices: tuple[str, ...] = ()
        if target is None:
            retried(self._begin, self.retries)
        else:
            self._begin()

    @property
    def _tables(self) -> TargetTables:
        """Return the tables of the target, which is opened again if it was lost."""
        if self._opened is None:
            self._begin()
        assert self._opened is not None
        return self._opened

    def _begin(self) -> None:
        """Open the target, and continue after the position that it has. Raises StorageError if the trail is not the one that was applied, or lacks what follows the stored position."""
        self._opened = self._open()
        # One for all tables, so that each file is searched once.
        self._opened.definition_before = TrailDefinitions(self._find()).before
        known = self._position = self._opened.done
        try:
            if known is None:
                self.first_file_notices = first_file_notices(self._find())
                self._place = self._stream.initial(EARLIEST)
            else:
                self._place = self._stream.continued(stored_position(known))
        except BaseException:
            self.close()
            raise

    def _fail(self, error: TargetUnavailableError) -> None:
        """Close the target after a fault; raises its error if there is to be no other trial."""
        if not self._can_open:
            raise error
        self.close()
        self.retries.failed(error)

    def close(self) -> None:
        """Close the target."""
        opened, self._opened = self._opened, None
        if opened is not None:
            self._position = opened.done
            opened.close()

    @property
    def position(self) -> Position | None:
        """Return how far all tables are applied, by what the run knows."""
        return self._position if self._opened is None else self._opened.done

    def lag_bytes(self) -> int:
        """Return the number of bytes of whole transactions of the trail that are not applied."""
        return bytes_after(self._find(), self._place.place)

    def release(self) -> None:
        """Let others use the target until the next batch."""
        if self._opened is not None:
            self._opened.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def to_end(self, progress: Progress | None = None) -> ApplyReport:
        """Apply all batches there are; return what was done. ``progress`` is called after each batch."""
        done = ApplyReport()
        for report in self.batches():
            done += report
            if progress is not None:
                progress(report)
        return done + ApplyReport(notices=self.notices)

    @property
    def notices(self) -> tuple[str, ...]:
        """Return a sentence for everything in the trail that was not applied: missing first files, patterns without a table, an open transaction, an unfinished record."""
        rest = self.rest
        return (
            *self.first_file_notices,
            *self.pattern_notices,
            *(() if rest is None else rest.notices),
        )

    @property
    def pattern_notices(self) -> tuple[str, ...]:
        """Return a sentence for each pattern that no table of the trail fits, and for tables that joined the group."""
        trail, applied = self._find(), self._tables.sources
        if trail is None or not self.mapped.unmatched(applied):
            return self._tables.notices

        def enough(names: set[str]) -> bool:
            return not self.mapped.unmatched(names | applied)

        names, are_all = latest_tables(trail, enough, SEARCHED_BYTES)
        missed = self.mapped.unmatched(names | applied)
        if (
            not names | applied
        ):  # an older trail defines none, and its tables are known when they are read
            first = self._tables.done is None
            return (
                *self._tables.notices,
                *(f"{place} {pattern}: {UNDEFINED}" for place, pattern in missed if first),
            )
        known = sorted(names | applied)
        whole = "the trail" if are_all else "the trail's newest files"
        return (
            *self._tables.notices,
            *(describe_no_match(place, pattern, known, whole) for place, pattern in missed),
        )

    def _is_absent(self, pattern: str) -> bool:
        """Return whether the trail defines no table that fits a pattern."""
        trail = self._find()
        names = () if trail is None else list_defined_tables(trail)
        return not any(TablePatterns((pattern,)).fits_end(name) for name in names)

    @property
    def lacks_operations(self) -> bool:
        """Return whether the trail lacks operations: its first files, or bytes at its end. What is still being written is not missing."""
        rest = self.rest
        return bool(self.first_file_notices) or (rest is not None and rest.missing_bytes > 0)

    @property
    def keeps(self) -> bool:
        """Return whether operations that cannot be applied are discarded."""
        return self._tables.keeps

    @property
    def rest(self) -> TrailRest | None:
        """Return what the trail has after the last transaction that was applied."""
        return self._stream.rest(self._place)

    def batches(self) -> Iterator[ApplyReport]:
        """Yield what each batch did, up to the last transaction that is whole by now. A fault of the target that may pass is waited for."""
        while True:
            try:
                for report in self._batches():
                    self.retries.answered()
                    yield report
            except TargetUnavailableError as error:
                self._fail(error)
                if not self.retries.wait():
                    return
            except TrailgateError:
                # The report that has the notices is lost, and the next run does not begin at the first file.
                for notice in self.first_file_notices:
                    LOG.warning("%s", notice)
                raise
            else:
                self.retries.answered()
                return

    def _batches(self) -> Iterator[ApplyReport]:
        """Yield what each batch did."""
        if self._opened is None:
            self._begin()
        while (end := self._stream.latest(self._place, self._limit)) != self._place:
            planned = self._stream.splits(self._place, end, self._reading.split_bytes)
            report = None if planned is None else self._apply(*planned, end.place)
            self._place = end
            if report is not None:
                yield report
            else:
                self._store_reached(end.place)

    @property
    def _limit(self) -> BatchLimit:
        """Return how much of the trail is a batch: where operations are not folded, their number decides the memory."""
        usual = self._reading.batch_bytes if self._tables.folds else UNFOLDED_BYTES
        return BatchLimit(bytes=self._options.batch_bytes or usual)

    def _store_reached(self, reached: TrailPosition) -> None:
        """Store that files were read in which no operation is to be applied, so that they may be removed."""
        done = self._tables.done
        if done is None or self._options.dry_run:
            return
        before = stored_position(done).needed
        if reached.number > before.number:
            self._tables.store(replace(done, reached=long_position(*reached)))

    def check_source(self, known: Position) -> None:
        """Raise StorageError if a position is that of another trail, of other tables of it, or of an earlier trail under the same prefix."""
        own, other = GroupSource.read(self._source), GroupSource.read(known.trail)
        if own.joining(other, self._is_absent) != []:
            raise StorageError(
                f"{known.trail} was applied, and this is {self._source}",
                hint="Give the options that it was applied with",
            )
        self._stream.continued(stored_position(known))

    def reads(self) -> Iterator[Mapping[str, TargetOperations]]:
        """Yield the operations of each batch by target table, and apply none."""
        while (end := self._stream.latest(self._place, self._limit)) != self._place:
            planned = self._stream.splits(self._place, end, self._reading.split_bytes)
            if planned is not None:
                yield self._read(*planned).operations
            self._place = end

    def _read(self, trail: TrailFiles, splits: list[TrailSplit]) -> SplitRead:
        tables, prepare = self._tables, self.mapped.prepare()

        def read() -> Iterable[SplitRead]:
            work = SplitWork(
                trail,
                tables.source,
                self.mapped.wanted,
                tables.known,
                tables.done_before,
                extend=tables.extend,
                prepare=prepare,
                after_csn=self._options.after_csn,
                keep=tables.keeps,
                fold_rows=self._reading.fold_rows if tables.folds else None,
                notices=self._notices,
                settled=tables.settled,
                until=tables.until,
            )
            return self._reading.run(work, splits)

        return tables.read(read)

    def _apply(
        self, trail: TrailFiles, splits: list[TrailSplit], reached: TrailPosition
    ) -> ApplyReport | None:
        """Apply the operations of splits, after which reading continues at ``reached``; return None if all of them were applied before."""
        tables = self._tables
        self._check_ddl(trail, splits)
        batch = self._read(trail, splits)
        if batch.last is None or (
            tables.done is not None and batch.last.position <= tables.done.position
        ):
            return None
        place = TrailPosition(*parse_position(batch.last.position))
        last = replace(
            batch.last, digest=record_digest(trail, place), reached=long_position(*reached)
        )
        return tables.apply(replace(batch, last=last))

    def _check_ddl(self, trail: TrailFiles, splits: Sequence[TrailSplit]) -> None:
        """Raise OptionError if the parameter file asks for DDL, and the splits have a record of it that is not applied yet."""
        ddl = self.mapped.ddl
        if ddl is None or not splits:
            return
        done = self._tables.done
        start = splits[0].start
        if done is not None:
            start = max(start, TrailPosition(*parse_position(done.position)))
        end = splits[-1].end
        if until := self._tables.until:
            end = min(end, TrailPosition(*parse_position(until)).just_after)
        found = first_ddl(trail, start, end)
        if found is not None:
            place, statement = found
            at = short_position(long_position(*place))
            shown = statement[:SHOWN] + ("..." if len(statement) > SHOWN else "")
            problem = f"{ddl.text} is not obeyed: position {at} has DDL, {shown!r}"
            where = Where(source=self.mapped.source_file, line=ddl.line, field="DDL")
            hint = "Change the target yourself, and apply without it: --ignore-unsupported (ignore_unsupported)"
            raise OptionError(problem, where=where, hint=hint)


def stored_position(known: Position) -> StoredPosition:
    """Return what a target keeps of a position in a trail."""
    return StoredPosition(known.position, known.csn, known.digest, known.reached)


def position_notices(
    trail: Address, known: Position, definitions: Address | Definitions | None = None
) -> tuple[str, ...]:
    """Return a sentence for everything at a trail's end that cannot be applied yet. Raises StorageError if the trail is not the one that the position is of, and DecodeError for damage."""
    stream = TrailStream(partial(find_trail, trail, definitions))
    start = stream.continued(stored_position(known))
    stream.check_numbers(start)
    rest = stream.rest(start)
    return () if rest is None else rest.notices
