"""Publish a trail's operations as messages, either to files of a folder or to a broker.

The folder or the broker also stores the state of the publication, with the position of the last
published transaction. A run reads the complete transactions after this position, passes them to the
format's writer batch by batch, and publishes the messages together with the new position. So each
run continues where the last one ended.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, Self

import numpy as np
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.capture.formats import find_publication_format, publish_options, writer_for
from trailgate.errors import OptionError, Where, did_you_mean, mask_logins
from trailgate.jobs.retries import PATIENCE, Retries
from trailgate.live.brokers.address import (
    Direction,
    is_address,
    parse_address,
)
from trailgate.messages.publishing import MessageWriter, PublishOptions
from trailgate.model.changes import ChangeBatch
from trailgate.model.operation_counts import Counts, add_counts, count_operations
from trailgate.model.positions import long_position, parse_position, short_position
from trailgate.model.table_names import TablePatterns
from trailgate.model.transactions import OperationDropper, mask_ends
from trailgate.options import check_arguments
from trailgate.publish.message_origins import OriginFinder
from trailgate.publish.senders.broker_sink import (
    GROUP_IS,
    OTHER_GROUP,
    BatchRefusedError,
    broker_sink,
    sender_for,
)
from trailgate.publish.senders.folder import (
    FOLDER_IS,
    MessageFileWriter,
    message_folder,
    read_published,
)
from trailgate.publish.senders.folder import HINT as FOLDER_HINT
from trailgate.publish.senders.sender import (
    LOG,
    OutgoingMessages,
    PublishedState,
    Sink,
    StoredState,
)
from trailgate.storage.files.addresses import absolute, is_stored
from trailgate.storage.files.trail_files import TrailFiles, TrailPosition, find_trail
from trailgate.storage.reading.options import POSITION, ReadOptions
from trailgate.storage.reading.splits import SplitOptions, SplitReader, TrailSplit
from trailgate.storage.reading.stored_position import StoredPosition, TrailUse, record_digest
from trailgate.storage.reading.trail_file_checks import first_file_notices
from trailgate.storage.reading.trail_rest import count_bytes_after
from trailgate.storage.reading.trail_stream import EARLIEST, StreamOffset, TrailStream
from trailgate.storage.reading.trails import check_after, plan_reading

FILE_BYTES: Final = 64 << 20
OTHER_TRAIL: Final = (
    "Restore the files, or publish the present ones to another folder or with another --group"
)
PUBLISHED: Final = TrailUse("published", OTHER_TRAIL, OTHER_TRAIL)
NO_GROUP: Final = "a group applies only to brokers, not to folders"
WHOLE_TRAIL: Final = 1 << 62  # a split size with which the complete trail is one split
# The bytes of a trail whose messages are written at once. Messages take several times as much memory,
# once for the batch that is sent and once for the next one. A larger chunk does not save time.
CHUNK_BYTES: Final = 1 << 20

# Seconds between two listings of a trail that does not grow, on a local disk and in an object store.
LISTING_PAUSE: Final = 0.005
STORE_LISTING_PAUSE: Final = 1.0
# At least this many times as long as a listing took, so that listing takes at most a tenth of the time.
LISTING_SHARE: Final = 10


@dataclass(frozen=True, slots=True)
class PublishSummary:
    """The result of a publication: operations by table and type, messages, and the files written.

    The counts are those of this run. ``position`` is the position of the last published operation;
    a later run continues after it. ``notices`` are sentences about missing parts of the trail, and
    about parts that remain for a later run, such as an open transaction. ``unmatched`` are the
    table patterns that match no table in the data. ``guarantee`` is "exactly once" or "at least
    once".
    """

    target: str
    format: str
    counts: Counts
    messages: int = 0
    transactions: int = 0
    operations: int = 0
    notices: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    position: str = ""
    unmatched: tuple[str, ...] = ()
    guarantee: str = ""


def plan_publishing(trail: TrailFiles, after: str | None, split_bytes: int) -> list[TrailSplit]:
    """Divide the part of a trail to publish, after a position, into splits of about ``split_bytes``.

    A transaction belongs to the split in which it begins.
    """
    return plan_reading(trail, ReadOptions(after=after), split_bytes)


def read_changes(
    trail: TrailFiles,
    splits: Sequence[TrailSplit],
    after: str | None = None,
    tables: TablePatterns | None = None,
    seen: set[str] | None = None,
    options: SplitOptions | None = None,
) -> Iterator[ChangeBatch]:
    """Yield the operations of a trail to publish: those on these tables after a position, from splits.

    If some operations of a transaction are skipped, the transaction indicators of the others are
    recomputed. The name of each table with an operation is added to ``seen``, even if the table is
    not selected.
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
                    # Positions are texts of fixed width, whose order is that of the trail.
                    later = pc.greater(block.position, after).to_numpy(zero_copy_only=False)
                    keep[block.order] = later
        return keep

    # Without a choice no operation is skipped, so the batches need no new indicators.
    takes_all, remaining = tables is None and not after, OperationDropper()
    for split in splits:
        for batch in SplitReader(trail, split, options).batches():
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
    group: str | None = None,
    progress: Progress | None = None,
) -> PublishSummary:
    """Publish the operations of a trail as messages, to a folder or broker, and return a summary.

    ``to`` is a folder, or the address of a topic or queue such as
    ``kafka://host/shop.${schema}.${table}``. ``group`` names the publication at the broker; the
    default is the trail's name.

    ``format`` is "delimited", "xml", "json" or "debezium", and ``options`` are the options of that
    format (docs/publications.md). ``content`` is "transaction" or "row", and states what one
    message contains. ``max_message_bytes`` limits the size of a message. The files are JSON lines
    with a body, and headers if there are any; with ``message_per="line"`` each line is the
    unchanged body of a message. ``tables`` are patterns such as ``HR.*``. ``after`` is the position
    after which the first run starts. A later run with the same options continues after the last
    published transaction. ``progress`` is called with the number of operations.

    Raises OptionError, StorageError if the folder contains something else, BrokerError, and
    EncodeError for a value that the format cannot represent or a message that is too large.
    Complete files written before an error stay, and a later run continues after them.
    """
    settings = PublicationSettings(
        format=format,
        tables=tables,
        after=after,
        message_per=message_per,
        file_bytes=file_bytes,
        content=content,
        max_message_bytes=max_message_bytes,
        options=options,
        group=group,
    )
    with Publication(trail, to, settings, definitions=definitions) as publication:
        publication.run(progress)
    return publication.summary()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationSettings:
    """What a publication contains and how it is written. The fields are arguments of ``publish_trail``."""

    format: str = "delimited"
    tables: str | Iterable[str] | TablePatterns | None = None
    after: str | None = None
    message_per: Literal["json", "line"] = "json"
    file_bytes: int = FILE_BYTES
    content: Literal["transaction", "row"] | None = None
    max_message_bytes: int | None = None
    options: Mapping[str, Any] | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        if self.message_per not in ("json", "line"):
            raise OptionError(f"message_per must be json or line, not {self.message_per!r}")
        if self.file_bytes < 1:
            raise OptionError(f"file_bytes must be a number above 0, not {self.file_bytes}")
        if self.group == "":
            raise OptionError("a group needs a name", hint="Without --group it is the trail's name")

    def of_format(self) -> PublishOptions:
        """Return the options of the publication's message format. Raises OptionError."""
        common = {"content": self.content, "max_message_bytes": self.max_message_bytes}
        common = {name: value for name, value in common.items() if value is not None}
        own = find_publication_format(self.format).options.match_names(self.options or {})
        for name in common.keys() & own.keys():
            problem = f"{name} is set twice: {common[name]!r}, and {own[name]!r} among the options of the format"
            raise OptionError(problem, hint="Set it once")
        stated = {**common, **own}
        return publish_options(
            self.format, {name: value for name, value in stated.items() if value is not None}
        )


class Publication:
    """An open publication of a trail, as a context manager. ``run`` publishes what the trail contains now.

    At the end, ``__exit__`` publishes the last, incomplete batch or file. ``retries`` states how
    long to wait for a broker that does not answer. ``sent`` is called with the new state after a
    broker has confirmed a batch.
    """

    def __init__(
        self,
        trail: str | os.PathLike[str] | TrailFiles,
        to: str | os.PathLike[str],
        settings: PublicationSettings,
        *,
        definitions: str | os.PathLike[str] | None = None,
        retries: Retries | None = None,
        sent: Callable[[PublishedState], None] = lambda _: None,
    ) -> None:
        self._chosen = _patterns(settings.tables)
        self._options, self._format = settings.of_format(), settings.format.casefold()
        self._trail, self._definitions = trail, definitions
        source = self._files = self._source()
        self._stream = TrailStream(lambda: self._files, PUBLISHED)
        self._prefix = source.prefix
        after = self._after = _position_to_start_after(settings.after, source)
        self._seen = set[str]()
        self._closing = ExitStack()
        form = self._form(settings)
        # If anything below fails, the stack releases the folder's lock. At the end ``pop_all``
        # moves the lock to the publication, which releases it when it is closed.
        with ExitStack() as stack:
            if is_address(str(to)):
                if settings.message_per != "json":
                    raise OptionError(
                        "message_per applies only to files of a folder, not to brokers"
                    )
                address = parse_address(str(to), direction=Direction.SENT)
                self._sink: Sink = broker_sink(
                    address,
                    settings.group or name_group(source.prefix),
                    self._options,
                    self._format,
                    retries
                    or Retries(address.number("patience", PATIENCE), what="the broker", log=LOG),
                    sent,
                )
                form |= {"to": address.destination}
            elif settings.group is not None:
                raise OptionError(NO_GROUP)
            else:
                folder = message_folder(to)
                stack.enter_context(folder.locked())
                self._sink = MessageFileWriter(
                    folder, bare=settings.message_per == "line", file_bytes=settings.file_bytes
                )
            try:
                self._before = self._sink.begin(name_source(source.prefix), form, after)
                self._place = _find_beginning(self._stream, source, self._before, after)
            except BaseException:
                self._sink.discard()
                raise
            # operations up to this one are skipped, because reading begins where its transaction begins
            # Only the state knows how far the messages really went; `after` is only used by the
            # first run.
            self._state, self._skipped = self._before, self._before.position or after
            begun = self._skipped or self._before.reached
            self._first_notices = () if begun else first_file_notices(source)
            self._closing = stack.pop_all()

    def _form(self, settings: PublicationSettings) -> dict[str, str]:
        """Return the options that determine how the publication's messages are written.

        The state records them, and later runs must use the same.
        """
        form = {
            "format": self._format,
            "message_per": settings.message_per,
            "tables": ",".join(self._chosen.patterns) if self._chosen else "",
        }
        own = asdict(self._options).items()
        return form | {name: str(one) for name, one in own if name != "now"}

    def __enter__(self) -> Self:
        """Return the publication, which is open already."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Publish the messages that are committed but not published yet, or discard them after an error."""
        with self._closing:
            if kind is None:
                self._sink.close()
            else:
                self._sink.discard()

    @property
    def guarantee(self) -> str:
        """The delivery guarantee of the target, such as "exactly once"."""
        return self._sink.guarantee

    @property
    def state(self) -> PublishedState:
        """The state of the publication. It includes messages that wait until their batch is full."""
        return self._state

    def run(self, progress: Progress | None = None) -> int:
        """Publish all complete transactions that the trail contains now, and return their number of operations."""
        before = self._state.operations
        while True:
            try:
                self._publish_rest(progress)
            except BatchRefusedError as refused:
                self._state = refused.rewind()
                self._place = _find_beginning(
                    self._stream, self._source(), self._state, self._after
                )
                self._skipped = self._state.position or self._after
            else:
                return self._state.operations - before

    def _publish_rest(self, progress: Progress | None) -> None:
        """Publish the trail's complete transactions after the publication's current state."""
        self._files = self._source()
        end = self._stream.latest(self._place)
        # One split, because messages are written in the order of the trail.
        # None if no transaction has ended since the last run.
        planned = self._stream.splits(self._place, end, WHOLE_TRAIL)
        run = _Run(self._sink, self._state, self._writer(), progress)
        try:
            if planned is not None:
                trail, splits = planned
                after, chosen, seen = self._skipped, self._chosen, self._seen
                options = SplitOptions(chunk_bytes=CHUNK_BYTES)
                for batch in read_changes(trail, splits, after, chosen, seen, options):
                    run.take(trail, batch)
            # Operations were published, so the next run begins after them and skips none.
            if run.state.operations:
                self._skipped = None
            run.finish(self._place.place, end.place)
            # Only after `finish`: if a message could not be sent, the next run must read from the
            # same place again.
            self._place = end
        finally:
            self._state = run.state
        self._sink.flush()

    def _writer(self) -> tuple[MessageWriter, OriginFinder]:
        return writer_for(self._format, self._options), OriginFinder(self._options)

    def follow(self, stopped: Callable[[], bool]) -> None:
        """Publish the trail as it grows.

        ``stopped`` is called before each listing of the trail; the loop ends when it returns True.
        """
        seen = None
        while not stopped():
            begun = time.monotonic()
            sizes = tuple((file.path, file.size) for file in self._source().files)
            took = time.monotonic() - begun
            if sizes != seen:
                self.run()
                seen = sizes
            pause = STORE_LISTING_PAUSE if is_stored(self._prefix) else LISTING_PAUSE
            # A slow listing (thousands of files in a store) makes the pauses longer, so that
            # listing takes at most a fixed share of the time.
            time.sleep(max(0.0, begun + max(pause, LISTING_SHARE * took) - time.monotonic()))

    def lag_bytes(self) -> int:
        """Return the size in bytes of the trail's complete transactions that are not published yet."""
        return count_bytes_after(self._source(), self._place.place)

    def summary(self) -> PublishSummary:
        """Return the counts of this publishing run and its last state, without the counts of earlier runs."""
        state, before, rest = self._state, self._before, self._stream.rest(self._place)
        counts = {
            table: {
                kind: count - before.counts.get(table, {}).get(kind, 0)
                for kind, count in kinds.items()
                if count != before.counts.get(table, {}).get(kind, 0)
            }
            for table, kinds in state.counts.items()
        }
        return PublishSummary(
            target=self._sink.name,
            format=self._format,
            counts={table: counts[table] for table in sorted(counts) if counts[table]},
            messages=state.messages - before.messages,
            transactions=state.transactions - before.transactions,
            operations=state.operations - before.operations,
            notices=(
                *_notices_of_after(self._after, before.position),
                *self._first_notices,
                *(() if rest is None else rest.notices),
            ),
            files=tuple(self._sink.names),
            position=state.position,
            unmatched=_find_unmatched(self._chosen, self._seen),
            guarantee=self._sink.guarantee,
        )

    @property
    def lacks_operations(self) -> bool:
        """Whether the trail lacks operations (``ApplyRun.lacks_operations`` does the same).

        That is so if its first files are missing, or if its last file does not have the size that
        the header states.
        """
        rest = self._stream.rest(self._place)
        return bool(self._first_notices) or (rest is not None and bool(rest.size_problem))

    def _source(self) -> TrailFiles:
        """Find the current files of the published trail."""
        if isinstance(self._trail, TrailFiles):
            return self._trail
        return find_trail(self._trail, self._definitions)


def _notices_of_after(after: str | None, published: str) -> tuple[str, ...]:
    """Return a notice if the option ``after`` is ignored, because the publication already has a state.

    ``published`` is the position in this state, or "". An ``after`` that is not higher needs no
    notice.
    """
    if after is None or not published or after <= published:
        return ()
    begin, place = short_position(after), short_position(published)
    return (f"the position {begin} was ignored: the publication continues after {place}",)


def _find_unmatched(chosen: TablePatterns | None, seen: Iterable[str]) -> tuple[str, ...]:
    """Return the table patterns of a publication that match none of the tables ``seen``.

    Each has a suggestion of a similar name. If no table was seen, the result is empty.
    """
    names = sorted(seen)
    patterns = chosen.patterns if chosen and names else ()
    wrong = [one for one in patterns if not any(map(TablePatterns((one,)).fits, names))]
    return tuple(f"{one}. {did_you_mean(one, names)}".rstrip(". ") for one in wrong)


def _find_beginning(
    stream: TrailStream, trail: TrailFiles, state: PublishedState, after: str | None
) -> StreamOffset:
    """Return the offset at which a publication begins to read its trail.

    That is after the stored state, or in a first run after the position ``after``. Raises
    StorageError if the trail no longer contains the last published operation, or the operations
    after it.
    """
    position = state.position if state.operations else ""
    if position or state.reached:
        known = StoredPosition(position, state.csn or None, state.digest, state.reached)
        return stream.resume_at(known)
    chosen = state.position or after
    if not chosen:
        return stream.initial(EARLIEST)
    return stream.initial(long_position(*min(TrailPosition(*parse_position(chosen)), trail.end)))


def _position_to_start_after(text: str | None, trail: TrailFiles) -> str | None:
    """Return the position after which a publication starts, as 20 digits. Raises OptionError if it is not in the trail."""
    if text is None:
        return None
    position: str = POSITION.read(text)
    check_after(trail, position)
    return position


def _patterns(tables: str | Iterable[str] | TablePatterns | None) -> TablePatterns | None:
    if tables is None or isinstance(tables, TablePatterns):
        return tables
    return TablePatterns.of(tables)


class _Run:
    """Writes the messages of one run to a sink, and commits them at the ends of transactions."""

    def __init__(
        self,
        sink: Sink,
        state: PublishedState,
        writer: tuple[MessageWriter, OriginFinder],
        progress: Progress | None,
    ) -> None:
        self._sink, (self._writer, self._origins) = sink, writer
        self._progress, self.state = progress, state
        self._open = PublishedState("")  # the counts of the transaction that has not ended

    def take(self, trail: TrailFiles, batch: ChangeBatch) -> None:
        """Convert a batch of operations to messages, add them to the sink, and commit ended transactions.

        Messages of the last, open transaction are added too, but not committed.
        """
        messages = self._writer.write(batch)
        part = OutgoingMessages(messages, self._origins.find(batch, messages))
        # The rows before which a commit is possible, since a transaction has ended.
        ends = np.flatnonzero(mask_ends(batch.tx_indicators())) + 1
        row = first = 0
        while (stop := _find_stop(ends, row, self._sink.room)) is not None:
            # ``messages.order`` ascends, and is the row of each message's first operation. All
            # transactions before row ``stop`` have ended, so the messages of these rows can be
            # committed.
            safe = int(np.searchsorted(messages.order, stop))
            self._sink.append(part.slice(first, safe))
            self._add_open(batch, row, stop, safe - first)
            self.state = _at_operation(_sum(self.state, self._open), trail, batch, stop - 1)
            self._open = PublishedState("")
            self._sink.commit(self.state)
            row, first = stop, safe
        # The messages after it wait for the end of their transaction.
        self._sink.append(part.slice(first, len(messages)))
        self._add_open(batch, row, batch.rows, len(messages) - first)
        if self._progress is not None and row:
            self._progress(self.state.operations)

    def finish(self, begin: TrailPosition, end: TrailPosition) -> None:
        """Add the messages that the writer still buffers, and store ``end`` as the state's ``reached``.

        If nothing was published and ``begin`` is in the same file, the stored ``reached`` is kept.
        """
        rest, before = self._writer.finish(), self.state
        if len(rest):
            self._sink.append(OutgoingMessages(rest, self._origins.finish(rest)))
            self.state = replace(self.state, messages=self.state.messages + len(rest))
        # Only whole files can be removed, so a position is not stored if no operation was published up to it.
        if not self.state.reached or begin.number < end.number:
            self.state = replace(self.state, reached=long_position(*end))
        if self.state != before:
            self._sink.commit(self.state)

    def _add_open(self, batch: ChangeBatch, begin: int, stop: int, messages: int) -> None:
        counts, transactions = count_operations(batch, begin, stop)
        counted = PublishedState(
            "",
            messages=messages,
            operations=stop - begin,
            transactions=transactions,
            counts=counts,
        )
        self._open = _sum(self._open, counted)


def _find_stop(ends: Longs, row: int, room: int) -> int | None:
    """Return the row of a batch before which the publication should commit next.

    ``ends`` are the rows before which a transaction ends. The result is the first of them that is
    at least ``room`` rows after ``row``, or else the last one. Returns None if no transaction ends
    after ``row``.

    Example: if ``ends`` is 4, 6, 10 and ``room`` is 5, the result is 6 for row 0, and 10 for row 6.
    """
    if not len(ends) or ends[-1] <= row:
        return None
    at = int(np.searchsorted(ends, row + room))
    return int(ends[min(at, len(ends) - 1)])


def check_publication(to: str, settings: PublicationSettings) -> None:
    """Check the address and the settings of a publication, without connecting to a broker or writing.

    Raises OptionError if one is wrong, and MissingDependencyError if the library of the broker or
    the store is not installed.
    """
    options = settings.of_format()
    if is_address(to):
        address = parse_address(to, direction=Direction.SENT)
        sender_for(address, settings.group or "", options, settings.format.casefold()).close()
    else:
        message_folder(to)


def read_status(
    trail: TrailFiles, to: str | os.PathLike[str], group: str | None = None
) -> PublishedState | None:
    """Read the state of a trail's publication, or return None if there is none.

    Raises BrokerError, and StorageError if the state cannot be read or belongs to another trail.
    """
    source = name_source(trail.prefix)
    if not is_address(str(to)):
        if group is not None:
            raise OptionError(NO_GROUP)
        folder = message_folder(to)
        known = read_published(folder)
        if known is not None:
            known.check(source, known.form, Where(source=folder.name), FOLDER_IS, FOLDER_HINT)
        return known
    address = parse_address(str(to), direction=Direction.SENT)
    # The form does not matter for reading.
    sender = sender_for(
        address, group or name_group(trail.prefix), PublishOptions(content="row"), ""
    )
    try:
        text = sender.read()
    finally:
        sender.close()
    where = Where(source=str(address))
    if text is None:
        return None
    state = StoredState.decode(text, where).state
    if not state.operations and state.find_difference(source, state.form):
        return None  # a run for another trail published nothing
    state.check(source, state.form, where, GROUP_IS, OTHER_GROUP)
    return state


def name_source(prefix: str) -> str:
    """Return the name of the trail that a publication stores in its state: its absolute path or address, without logins."""
    path = absolute(prefix)
    return mask_logins(path if is_stored(path) else os.path.normpath(path))


def name_group(prefix: str) -> str:
    """Return the name of a trail's default publication group: the last part of the trail's prefix."""
    return mask_logins(prefix).rstrip("/").rpartition("/")[2]


def _sum(state: PublishedState, more: PublishedState) -> PublishedState:
    return replace(
        state,
        messages=state.messages + more.messages,
        operations=state.operations + more.operations,
        transactions=state.transactions + more.transactions,
        counts=add_counts(state.counts, more.counts),
    )


def _at_operation(
    state: PublishedState, trail: TrailFiles, batch: ChangeBatch, order: int
) -> PublishedState:
    """Return the publication's state with the position, CSN and digest of the operation in row ``order``.

    ``reached`` becomes empty, because it is not known yet where the next transaction begins.
    """
    block, row = batch.find(order)
    position = str(block.position[row].as_py())
    digest = record_digest(trail, TrailPosition(*parse_position(position)))
    csn = block.csn[row].as_py() or ""
    return replace(state, position=position, csn=csn, digest=digest, reached="")
