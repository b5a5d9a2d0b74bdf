"""Capture the messages of a feed into a trail: parse, append, and commit together with the feed's position.

``LiveCapture`` does this batch by batch, until it is stopped. A commit records the number of the
next message, so that a restart continues exactly there.

Bad messages are quarantined, if the options ask for it. ``repaired.py`` adds them to the trail after
the user has repaired them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Final

from trailgate.capture.capture import Capture
from trailgate.errors import OptionError, StorageError, TrailgateError, Where
from trailgate.live.brokers.address import BrokerAddress
from trailgate.live.files.journal_writer import JournalOptions
from trailgate.live.jobs.feed import (
    ConnectionState,
    DuplicateFilter,
    FeedPart,
    MessageFeed,
    PrefetchingFeed,
    make_feed,
)
from trailgate.live.jobs.source import SourcePosition, read_source_position
from trailgate.live.jobs.units import HELD_BYTES, UnitResult, UnitSorter
from trailgate.messages.message_ids import JMS_MESSAGE_ID, MessageIdRule, message_id_header
from trailgate.messages.skipped import (
    SkippedTotals,
    add_skipped,
    count_skipped,
    skipped_notes,
)
from trailgate.model.operation_counts import Counts, add_counts, count_operations
from trailgate.storage.files.quarantine import append_lines
from trailgate.storage.live.appender import TrailAppender
from trailgate.storage.live.live_trail import AppendOptions
from trailgate.storage.live.recovery import DuplicateSkipper

_LOG: Final = logging.getLogger("trailgate.brokers")
INTERRUPTED: Final = "a capture of repaired messages into this trail was interrupted"
AGAIN: Final = "Run its command again: trailgate capture --from FILE --to PREFIX"
WAITS: Final = (
    "the last transaction is not in the trail yet, since only a later message shows its end"
)
POLL_SECONDS: Final = 0.5  # the longest time until a stop takes effect
# While messages keep coming, a commit follows the one before after this time. It syncs files for longer than
# a few messages take to be appended, and messages that come meanwhile would wait.
COMMIT_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class ReceiveOptions:
    """The options of a live capture's run.

    - ``on_error``: "stop" at a bad message, or "quarantine" it.
    - ``until_empty``: stop after no message came for ``idle_seconds``.
    - ``append`` and ``journal``: the options of the trail and of the journal.
    - ``unordered_ids``: accept message ids that are lower than earlier ones.
    - ``needed_header``: a message without this header is not acknowledged.
    - ``held_bytes``: a transaction with more bytes of messages is buffered in a temporary file
      beside the trail.
    """

    on_error: str = "stop"
    until_empty: bool = False
    idle_seconds: float = 2.0
    append: AppendOptions = field(default_factory=AppendOptions)
    journal: JournalOptions = field(default_factory=JournalOptions)
    unordered_ids: bool = False
    needed_header: str | None = None
    held_bytes: int = HELD_BYTES

    def __post_init__(self) -> None:
        if self.on_error not in ("stop", "quarantine"):
            raise OptionError(f"on-error is {self.on_error}, expected stop or quarantine")


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The result of a live capture's batch.

    ``messages`` is the number of received messages without the ``repeated`` ones, which the broker
    redelivered. ``duplicates`` were sent again by the sender (equal ids of ``jms.id``). Both are
    dropped. ``skipped`` messages contain no operation. ``lag_messages`` is the number of messages
    that are received but not in the trail yet. ``lag_seconds`` is the age of the last message, or
    None if it has no time. ``trail_file`` and ``trail_offset`` are the trail's end. ``number`` is
    the number of the message with which a restart continues. ``counts`` are the operations by table
    and type.
    """

    messages: int
    operations: int
    transactions: int
    repeated: int
    duplicates: int
    quarantined: int
    skipped: int
    lag_messages: int
    lag_seconds: float | None
    trail_file: int
    trail_offset: int
    number: int
    counts: Counts


def interruption_error(prefix: str) -> StorageError:
    """Build the error with which a run refuses a trail to which only a part of some repaired messages was added."""
    return StorageError(INTERRUPTED, where=Where(source=prefix), hint=AGAIN)


class LiveCapture:
    """Captures the messages of a feed into a trail.

    ``run`` continues after the trail's last commit.
    """

    def __init__(
        self,
        capture: Capture,
        feed: MessageFeed,
        appender: TrailAppender,
        prefix: str,
        options: ReceiveOptions,
    ) -> None:
        self._capture, self._feed, self._appender = capture, feed, appender
        self._prefix, self._options = prefix, options
        self._quarantine = Path(f"{prefix}.quarantine.jsonl")
        recovered = appender.recovered
        position = read_source_position(
            recovered.source_position, feed.name, prefix, feed.source_id
        )
        known_id = None if position is None else position.source_id
        self._source_id = feed.source_id or known_id
        if position is not None and position.pending is not None:
            if recovered.transactions or recovered.abandoned:
                raise interruption_error(prefix)
            position = replace(position, pending=None)  # no repaired message was added
        self._committed = self._reached = position
        self._commit_time = time.monotonic()
        self._held = 0 if position is None else position.quarantine
        self._repaired = 0 if position is None else position.repaired
        self._skipped = DuplicateSkipper(recovered)
        reason = None if position is None else position.reason
        self._units = UnitSorter(
            appender.encode,
            Path(prefix).parent,
            stop=options.on_error == "stop",
            reason=reason,
            limit=options.held_bytes,
        )
        rule = MessageIdRule.of(
            capture.options,
            ordered=not options.unordered_ids,
            remembered=options.journal.remembered,
        )
        self._ids = DuplicateFilter(rule)
        self._notes: frozenset[str] = frozenset()
        self._without: SkippedTotals = {}
        last = None if recovered.last is None else recovered.last.csn
        bad = None if position is None or reason is None else position.transaction
        self._state = capture.state_after(last, broken=reason is not None, bad=bad)

    def run(self, stopped: Callable[[], bool] = lambda: False) -> Iterator[BatchReport]:
        """Capture a feed until a stop is requested, and yield a report of each batch.

        That is so if ``stopped()`` is true or, with ``until_empty``, if no messages come any more.
        In the mode "stop", raises the first bad message's error.
        """
        # drop the lines of the quarantine that the last commit does not count
        if self._quarantine.exists() or self._held:
            append_lines(self._quarantine, self._held, ())
        committed = self._committed
        number = None if committed is None else committed.number
        self._note(frozenset(self._capture.unmatched_warnings()), {})
        self._ids.begin(self._feed, number, None if committed is None else committed.last_id)
        self._feed.open(number)
        busy = time.monotonic()
        while not stopped():
            part = self._receive()
            # The stored messages are read again, so all operations after the last commit were seen.
            if self._feed.is_replayed and not self._skipped.is_done:
                self._skipped.finish()
            if part is not None:
                yield self._take(part)
            # A broken connection does not count as idle time.
            elif self._feed.is_connected and self._options.until_empty:
                if time.monotonic() - busy >= self._options.idle_seconds:
                    return
                continue
            busy = time.monotonic()
        self._commit()

    def _receive(self) -> FeedPart | None:
        """Wait for a part of the feed. If none comes, or on an error, commit what was appended."""
        part = None
        try:
            part = self._feed.receive(POLL_SECONDS)
        finally:
            if part is None:
                self._commit()
        return part

    @property
    def link(self) -> ConnectionState:
        """The state of the live capture's broker connection."""
        return self._feed.link

    @property
    def open_problem(self) -> str | None:
        """Why messages at the end of the feed are not captured yet, or None if all are captured.

        For example, their transaction has no end. The next start of the capture reads them again.
        """
        ended = self._capture.at_end(self._state)
        if ended.problems:
            return ended.problems[0].error.problem
        return WAITS if ended.batch.rows else None

    @property
    def notes(self) -> tuple[str, ...]:
        """The warnings about the messages of this live capture, among them those without operations."""
        return (*sorted(self._notes), *skipped_notes(self._without))

    def _note(self, notes: frozenset[str], skipped: SkippedTotals) -> None:
        """Store warnings about a part of the feed.

        A capture that runs until it is stopped also logs the new ones at once. ``skipped`` are the
        part's messages without operations.
        """
        first = {reason: one for reason, one in skipped.items() if reason not in self._without}
        if not self._options.until_empty:
            for note in (*sorted(notes - self._notes), *skipped_notes(first)):
                _LOG.warning(note)
        self._notes |= notes
        self._without = add_skipped(self._without, skipped)

    def _take(self, received: FeedPart) -> BatchReport:
        part, duplicates = self._ids.deduplicate(received)
        taken = UnitResult((), (), self._units.next_number(part.end), self._units.reason)
        if len(part):
            parsed = self._capture.parse(part.messages, self._state, part.problems)
            self._state = parsed.state
            # A note that is built from several batches, such as a number of heartbeats, is not among them.
            notes = self._capture.warnings_of_part(parsed.notes) & parsed.notes
            taken = self._units.take(part, parsed)
            self._note(notes, taken.skipped)
        # The commit comes last, maybe only after later messages. After a crash before it, operations are
        # skipped and lines are cut off when the messages are read again.
        counts, transactions = self._append(taken)
        if taken.lines:
            lines = BytesIO(b"".join(taken.lines))
            self._held = append_lines(self._quarantine, self._held, [lines])
        self._note_position(taken)
        if taken.error is not None or time.monotonic() - self._commit_time > COMMIT_SECONDS:
            self._commit()
        if taken.error is not None:
            raise taken.error
        return self._report(received, taken, duplicates, counts, transactions)

    def _append(self, taken: UnitResult) -> tuple[Counts, int]:
        """Append a part's complete operations that the trail does not contain yet.

        Returns the counts by table and type, and the number of transactions.
        """
        counts: Counts = {}
        transactions = 0
        for batch, encoded in taken.complete:
            rest = self._skipped.rest(batch)
            if rest is None or not rest.rows:
                continue
            self._appender.append(rest, encoded if rest is batch else None)
            more, begun = count_operations(rest, 0, rest.rows)
            counts, transactions = add_counts(counts, more), transactions + begun
        return counts, transactions

    def _note_position(self, taken: UnitResult) -> None:
        """Record the position in the feed that the trail's next commit stores."""
        last = self._ids.before(taken.number)
        self._reached = SourcePosition(
            source=self._feed.name,
            number=taken.number,
            quarantine=self._held,
            reason=taken.reason,
            last_id=last,
            repaired=self._repaired,
            transaction=None if taken.reason is None else self._state.tx_id,
            source_id=self._source_id,
        )

    def _commit(self) -> None:
        """Commit all appended operations together with the position in the feed.

        Does nothing if the position is unchanged, or if the feed still has to return messages whose
        operations are already in the trail.
        """
        reached = self._reached
        if reached is None or reached == self._committed or self._skipped.is_behind:
            return
        self._appender.commit(reached.encode())
        self._committed, self._commit_time = reached, time.monotonic()
        # only now may the journal forget the messages
        self._feed.mark_captured(reached.number)

    def _report(
        self,
        part: FeedPart,
        taken: UnitResult,
        duplicates: int,
        counts: Counts,
        transactions: int,
    ) -> BatchReport:
        """Report a batch."""
        file, offset = self._appender.place
        sent = part.sent
        return BatchReport(
            messages=len(part),
            operations=sum(count for kinds in counts.values() for count in kinds.values()),
            transactions=transactions,
            repeated=part.repeated,
            duplicates=duplicates,
            quarantined=len(taken.lines),
            skipped=count_skipped(taken.skipped),
            lag_messages=self._feed.lag(taken.number),
            lag_seconds=None if sent is None else round(time.time() - sent / 1000, 3),
            trail_file=file,
            trail_offset=offset,
            number=taken.number,
            counts=counts,
        )


@contextmanager
def open_live(
    capture: Capture, address: BrokerAddress, prefix: str, options: ReceiveOptions
) -> Iterator[LiveCapture]:
    """Open a live capture for a broker. It starts to receive when it is run.

    Raises StorageError if another run uses the trail, or if the trail was received from a different
    kind of source. Raises OptionError if no table is defined, because a broker's messages cannot be
    read in advance to infer tables.
    """
    if capture.options.infers:
        problem = (
            "no table is defined, and tables cannot be inferred from a broker's messages in advance"
        )
        hint = (
            capture.options.undefined_hint or "Name a definitions file with the property sourcedefs"
        )
        raise OptionError(problem, hint=hint)
    if capture.options.needs_message_ids:
        header = message_id_header(capture.options.message_id).header
        options = replace(options, needed_header=header if header == JMS_MESSAGE_ID else None)
    with TrailAppender(prefix, capture.tables, options.append) as appender:
        feed = PrefetchingFeed(
            make_feed(
                address,
                Path(f"{prefix}.journal"),
                options.journal,
                options.needed_header,
                lasting=not options.until_empty,
            )
        )
        try:
            yield LiveCapture(capture, feed, appender, prefix, options)
        except BaseException:
            with suppress(TrailgateError):  # report the error that ended the run, not this one
                feed.close()
            raise
        feed.close()
