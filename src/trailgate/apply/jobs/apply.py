"""Apply a trail to the tables of a target, batch by batch, each operation exactly once.

A batch is a sequence of complete transactions, for example 256 MiB of the trail. For each batch:

1. The new part of the trail is cut into splits, and threads read them (``split_operations.py``).
2. Operations are grouped by target table. Operations that a table already contains are skipped.
3. The rest is reduced to at most one change per key and written to the target (``tables.py``).
4. The target commits the changes together with the position of the batch's last operation.

Because the position is stored in the target, a run that was killed at any moment can continue
there, even if the next run cuts its batches differently.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self, Unpack

from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.jobs.group_sources import GroupSource
from trailgate.apply.jobs.options import OPTIONS, ApplyKeywords, ApplyOptions
from trailgate.apply.jobs.reports import ApplyReport
from trailgate.apply.jobs.resolved_options import check_option_effects, resolve_apply_options
from trailgate.apply.jobs.split_operations import FOLD_ROWS, SplitOperations, SplitWork
from trailgate.apply.jobs.tables import TargetTables
from trailgate.apply.targets.target import AppliedPosition, ApplyTarget
from trailgate.errors import (
    OptionError,
    StorageError,
    TargetUnavailableError,
    TrailgateError,
    Where,
)
from trailgate.jobs.retries import PATIENCE, Retries, call_with_retries
from trailgate.model.positions import long_position, parse_position, short_position
from trailgate.model.table_names import TablePatterns, describe_no_match
from trailgate.model.tables import Definitions
from trailgate.options import check_arguments, list_names
from trailgate.storage.files.addresses import Address
from trailgate.storage.files.trail_files import TrailFiles, TrailPosition, find_trail
from trailgate.storage.reading.message_stream import BatchLimit
from trailgate.storage.reading.splits import NoticeLog, TrailSplit
from trailgate.storage.reading.stored_position import APPLIED, record_digest
from trailgate.storage.reading.threads import run_in_order, thread_count
from trailgate.storage.reading.trail_definitions import (
    TrailDefinitions,
    find_first_ddl_record,
    list_defined_tables,
    list_latest_tables,
)
from trailgate.storage.reading.trail_file_checks import first_file_notices
from trailgate.storage.reading.trail_rest import TrailRest, count_bytes_after
from trailgate.storage.reading.trail_stream import EARLIEST, TrailStream
from trailgate.storage.reading.trails import check_after, check_csn_limits, csn_limit_notices

LOG: Final = logging.getLogger("trailgate.jobs.apply")  # `--follow` prints "trailgate.apply"
SEARCHED_BYTES: Final = 1 << 30  # of the newest files, in which tables are searched for patterns
UNDEFINED: Final = (
    "no operation on a matching table; the trail defines no tables, so their names are unknown"
)
SHOWN: Final = 80  # characters of a DDL statement in an error
APPLY_SPLIT_BYTES: Final = 8 << 20
# Bytes of the trail in one commit. The operations of a batch are in memory until it is committed.
BATCH_BYTES: Final = 256 << 20
UNFOLDED_BYTES: Final = 64 << 20  # a batch whose operations are not folded
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
    """Apply a trail, up to its last complete transaction, to the tables of a target, and return a report.

    ``to`` is an address such as ``delta:lake/`` or ``duckdb:shop.duckdb``. A later run with the
    same ``group`` continues where this one ends. ``tables`` are patterns such as ``HR.*``.
    ``on_collision`` defines what to do if an inserted row already exists, or if an updated or
    deleted row does not. Up to the CSN ``overlay_until``, inserts always overwrite existing rows,
    and changes of missing rows are ignored. Operations up to the CSN ``after_csn``, or up to the
    position ``after``, are skipped, because the tables already contain them. Transactions may share
    a CSN; ``after_csn`` skips all of these.

    An operation that cannot be applied stops the run. With ``on_error="discard"`` it is written to
    the JSON lines file ``discards`` instead, and with ``"discard-transaction"`` its complete
    transaction is. ``progress`` is called after each batch. If the target cannot be reached, is
    locked, or reports a conflict with another writer, the run retries for ``patience`` seconds.

    Raises OptionError; TargetUnavailableError after ``patience``; StorageError if something cannot
    be read or written; DefinitionError if tables do not match; and ApplyError if an operation does
    not match the rows of its table. If the target has transactions, nothing of the failed batch is
    then applied. Earlier batches stay.
    """
    given = ApplyOptions(**OPTIONS.read(options))
    with ApplyRun(
        trail,
        to,
        given,
        definitions=definitions,
        reading=ThreadReading(threads),
        retries=Retries(patience),
    ) as run:
        return run.to_end(progress)


@dataclass(frozen=True, slots=True)
class ThreadReading:
    """Reads the splits of a batch of apply in threads of this process. A subclass may override ``run``.

    A batch has ``batch_bytes`` of the trail, and a split ``split_bytes``. ``fold_rows`` is
    described in ``SplitWork``.
    """

    threads: int | None = None
    split_bytes: int = APPLY_SPLIT_BYTES
    fold_rows: int | None = FOLD_ROWS
    batch_bytes: int = BATCH_BYTES

    def run(self, work: SplitWork, splits: Sequence[TrailSplit]) -> Iterable[SplitOperations]:
        """Read splits of the trail in parallel threads, and yield their results in order."""
        threads = min(thread_count(self.threads), len(splits))
        return run_in_order(lambda split: [work.read(split)], splits, threads)


class ApplyRun:
    """One run of apply: reads batches of a trail and applies them to the tables of a target, one after another.

    The run opens the target by its address ``to``, or with ``open_target`` if that is given, and
    opens it again after a temporary fault. If the caller passes an open ``target`` instead, faults
    are raised.
    """

    def __init__(  # noqa: PLR0913  what is read, where it goes, and how
        self,
        trail: Address,
        to: str,
        options: ApplyOptions,
        *,
        definitions: Address | Definitions | None = None,
        reading: ThreadReading | None = None,
        target: ApplyTarget | None = None,
        open_target: Callable[[], ApplyTarget] | None = None,
        retries: Retries | None = None,
    ) -> None:
        if target is None and open_target is None:
            check_option_effects(to, options)
        self.mapped = mapped = resolve_apply_options(options)
        self._options, self._reading = mapped.options, reading or ThreadReading()
        self._find = partial(find_trail, trail, definitions or mapped.definitions)
        found = self._find()
        check_csn_limits(found, self._options.csn_limits)
        check_after(found, self._options.after)
        self._source = mapped.source(found.prefix)
        self._stream = TrailStream(self._find, APPLIED)
        self._notices = NoticeLog()
        self.retries = retries or Retries()

        def open_tables() -> TargetTables:
            opened = target if open_target is None else open_target()
            known = (self._options, self._source, mapped.mapping)
            return TargetTables(to, *known, opened, is_absent=self._is_absent)

        self._open = open_tables
        # A target that was passed in cannot be reopened here, so its faults are not retried.
        self._can_open = target is None
        self._position: AppliedPosition | None = None
        self._opened: TargetTables | None = None
        # Set only if the trail is applied from its beginning.
        self.first_file_notices: tuple[str, ...] = ()
        self.csn_notices: tuple[str, ...] = ()
        if target is None:
            call_with_retries(self._begin, self.retries)
        else:
            self._begin()

    @property
    def _tables(self) -> TargetTables:
        """The tables of the target. Opens the target again if the connection was lost."""
        if self._opened is None:
            self._begin()
        assert self._opened is not None
        return self._opened

    def _begin(self) -> None:
        """Open the target and continue after its stored position. Raises StorageError if this is not the trail that was applied, or if the files after that position are missing."""
        self._opened = self._open()
        # All tables share one ``TrailDefinitions``, so that each file is searched only once.
        self._opened.look_up_definitions(TrailDefinitions(self._find()).before)
        known = self._position = self._opened.done
        try:
            if known is None:
                trail = self._find()
                self.first_file_notices = first_file_notices(trail)
                self.csn_notices = tuple(csn_limit_notices(trail, self._options.csn_limits))
                self._place = self._stream.initial(EARLIEST)
            else:
                self._place = self._stream.resume_at(known.to_stored())
        except BaseException:
            self.close()
            raise

    def _fail(self, error: TargetUnavailableError) -> None:
        """Close the target after a fault. Raises the fault if a retry is not allowed."""
        if not self._can_open:
            raise error
        self.close()
        self.retries.record_fault(error)

    def close(self) -> None:
        """Close the target of the run."""
        opened, self._opened = self._opened, None
        if opened is not None:
            self._position = opened.done
            opened.close()

    @property
    def position(self) -> AppliedPosition | None:
        """The position up to which all tables are applied, as far as this run knows."""
        return self._position if self._opened is None else self._opened.done

    def lag_bytes(self) -> int:
        """Return the number of bytes in the trail's complete transactions that are not applied yet."""
        return count_bytes_after(self._find(), self._place.place)

    def release(self) -> None:
        """Release the target, so that other processes can use it until the next batch."""
        if self._opened is not None:
            self._opened.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def to_end(self, progress: Progress | None = None) -> ApplyReport:
        """Apply all batches up to the end of the trail, and return the sum of their reports. ``progress`` is called after each batch."""
        done = ApplyReport()
        for report in self.batches():
            done += report
            if progress is not None:
                progress(report)
        return done + ApplyReport(notices=self.notices)

    @property
    def notices(self) -> tuple[str, ...]:
        """The notices of this run of apply: sentences about the parts of the trail that were not applied.

        Examples are missing first files, a pattern that matches no table, an open transaction or an
        incomplete record.
        """
        rest = self.rest
        return (
            *self.first_file_notices,
            *self.csn_notices,
            *self.pattern_notices,
            *self._tables.unmatched_columns(self._defined_tables),
            *(() if rest is None else rest.notices),
        )

    @property
    def pattern_notices(self) -> tuple[str, ...]:
        """The notices of this run of apply about patterns that match no table of the trail, and about tables that were added to the group."""
        trail, applied = self._find(), self._tables.sources
        if trail is None or not self.mapped.unmatched_patterns(applied):
            return self._tables.notices

        def enough(names: set[str]) -> bool:
            return not self.mapped.unmatched_patterns(names | applied)

        names, are_all = list_latest_tables(trail, enough, SEARCHED_BYTES)
        missed = self.mapped.unmatched_patterns(names | applied)
        # Trails of old format levels define no tables. Their tables are known only when operations
        # are read.
        if not names | applied:
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

    def _defined_tables(self) -> set[str]:
        """Return the names of all target tables that the trail defines, even without operations.

        With MAP statements the names are unknown, and the result is empty.
        """
        trail = self._find()
        if self.mapped.mapping is not None:
            return set()
        return list_latest_tables(trail, lambda _: False, SEARCHED_BYTES)[0]

    def _is_absent(self, pattern: str) -> bool:
        """Return whether no table of the trail matches a pattern."""
        trail = self._find()
        names = () if trail is None else list_defined_tables(trail)
        return not any(TablePatterns((pattern,)).fits_end(name) for name in names)

    @property
    def lacks_operations(self) -> bool:
        """Whether the trail that is applied lacks operations.

        This is the case if its first files are missing, or if its last file does not have the size
        that its header states. A transaction that is still being written does not count.
        """
        rest = self.rest
        return bool(self.first_file_notices) or (rest is not None and bool(rest.size_problem))

    @property
    def keeps_rows(self) -> bool:
        """Whether operations that cannot be applied are discarded, so that a batch must keep their original rows."""
        return self._tables.keeps_rows

    @property
    def rest(self) -> TrailRest | None:
        """The bytes of the trail after the last applied transaction, such as an open transaction, or None if there are none."""
        return self._stream.rest(self._place)

    def batches(self) -> Iterator[ApplyReport]:
        """Apply batches up to the last complete transaction, and yield a report of each.

        After temporary faults of the target, wait and retry.
        """
        while True:
            try:
                for report in self._batches():
                    self.retries.record_success()
                    yield report
            except TargetUnavailableError as error:
                self._fail(error)
                if not self.retries.wait():
                    return
            except TrailgateError:
                # Log the notices now: the report with them is lost, and the next run does not begin
                # at the first file.
                for notice in self.first_file_notices:
                    LOG.warning("%s", notice)
                raise
            else:
                self.retries.record_success()
                return

    def _batches(self) -> Iterator[ApplyReport]:
        """Apply batches up to the last complete transaction, and yield a report of each, without retries."""
        if self._opened is None:
            self._begin()
        while (end := self._stream.latest(self._place, self._limit)) != self._place:
            planned = self._stream.splits(self._place, end, self._reading.split_bytes)
            report = None if planned is None else self._apply(*planned, end.place)
            self._place = end
            if report is not None:
                yield report
            else:
                # All operations were applied before, or are on tables that are not read.
                self._store_reached(end.place)

    @property
    def _limit(self) -> BatchLimit:
        """The maximum size of a batch.

        It is smaller if operations are not folded, because all of them are then in memory at once.
        """
        usual = self._reading.batch_bytes if self._tables.folds else UNFOLDED_BYTES
        return BatchLimit(bytes=self._options.batch_bytes or usual)

    def _store_reached(self, reached: TrailPosition) -> None:
        """Store that the trail has been read up to ``reached``, although no operation was applied.

        Complete files before that position may then be purged.
        """
        done = self._tables.done
        if done is None or self._options.dry_run:
            return
        before = done.to_stored().first_needed
        # Only whole files can be purged, so store it once per file and not after each batch.
        if reached.number > before.number:
            self._tables.store(replace(done, reached=long_position(*reached)))

    def check_source(self, applied: AppliedPosition) -> None:
        """Check that a stored position belongs to this trail.

        Raises StorageError if it belongs to another trail, to other tables of this trail, or to an
        earlier trail with the same prefix.
        """
        current, stored = GroupSource.read(self._source), GroupSource.read(applied.trail)
        # [] means that no table joined. None means that the two cannot belong to one group.
        if current.joining(stored, self._is_absent) != []:
            raise StorageError(
                f"the group has applied {applied.trail}, but this run reads {self._source}",
                hint="Use the same options as for apply",
            )
        self._stream.resume_at(applied.to_stored())

    def read_batches(self) -> Iterator[Mapping[str, TargetOperations]]:
        """Read each batch without applying it, and yield its operations by target table."""
        while (end := self._stream.latest(self._place, self._limit)) != self._place:
            planned = self._stream.splits(self._place, end, self._reading.split_bytes)
            if planned is not None:
                yield self._read(*planned).operations
            self._place = end

    def _read(self, trail: TrailFiles, splits: list[TrailSplit]) -> SplitOperations:
        """Read the splits of a batch as operations on target tables.

        They are read again if a target table differs from the table that their readers assumed.
        """
        tables, prepare = self._tables, self.mapped.prepare()

        def read() -> Iterable[SplitOperations]:
            work = SplitWork(
                trail,
                tables.source,
                self.mapped.selection,
                tables.known,
                tables.done_before,
                extend=tables.extend,
                prepare=prepare,
                after_csn=self._options.after_csn,
                after=self._options.after or "",
                keep=tables.keeps_rows,
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
        """Apply the splits of a batch. Return None if they have no operations, or if all were applied before.

        ``reached`` is the beginning of the next batch. It is stored with the position.
        """
        tables = self._tables
        self._check_ddl(trail, splits)
        batch = self._read(trail, splits)
        # The last batch before a restart may be read again, because batches can be cut differently.
        if batch.last is None or (
            tables.done is not None and batch.last.position <= tables.done.position
        ):
            return None
        last_position = TrailPosition(*parse_position(batch.last.position))
        last = replace(
            batch.last, digest=record_digest(trail, last_position), reached=long_position(*reached)
        )
        return tables.apply(replace(batch, last=last))

    def _check_ddl(self, trail: TrailFiles, splits: Sequence[TrailSplit]) -> None:
        """Raise OptionError if the parameter file asks for DDL and the splits contain a DDL record that is not applied yet."""
        ddl = self.mapped.ddl
        if ddl is None or not splits:
            return
        done = self._tables.done
        # Look only at the part that is not applied yet: DDL before the stored position was there
        # when an earlier run passed it.
        start = splits[0].start
        if done is not None:
            start = max(start, TrailPosition(*parse_position(done.position)))
        end = splits[-1].end
        if until := self._tables.until:
            end = min(end, TrailPosition(*parse_position(until)).just_after)
        record = find_first_ddl_record(trail, start, end)
        if record is not None:
            position, statement = record
            at = short_position(long_position(*position))
            shown = statement[:SHOWN] + ("..." if len(statement) > SHOWN else "")
            problem = f"{ddl.text} is not supported: position {at} has DDL, {shown!r}"
            where = Where(source=self.mapped.source_file, line=ddl.line, field="DDL")
            hint = "Change the target yourself, then apply the trail without its DDL: --ignore-unsupported (ignore_unsupported)"
            raise OptionError(problem, where=where, hint=hint)


def describe_unapplied(
    trail: Address, applied: AppliedPosition, definitions: Address | Definitions | None = None
) -> tuple[str, ...]:
    """Return a sentence for each part of a trail, after the position that apply has reached, that cannot be applied yet.

    Raises StorageError if the position belongs to another trail, and DecodeError if the trail is
    damaged.
    """
    stream = TrailStream(partial(find_trail, trail, definitions), APPLIED)
    start = stream.resume_at(applied.to_stored())
    stream.check_numbers(start)
    rest = stream.rest(start)
    return () if rest is None else rest.notices
