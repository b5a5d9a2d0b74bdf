"""The Spark format ``jms``: messages of a broker, or their operations, through a journal.

``spark.readStream.format("jms").option("url", "stomp://broker/orders").load("dirdat/ot.journal")``.

The driver receives messages and stores them in the journal; an offset of the stream is the number
of the next message in the journal. Spark creates the reader in several processes, so a reader opens
nothing until Spark asks it for the latest offset. Only then does it receive from the broker, if a
url is set. Spark calls ``commit`` one batch late, and may not call ``stop``, so nothing depends on
them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from trailgate.capture.capture import Capture
from trailgate.errors import OptionError, StorageError, Where
from trailgate.jobs.capture.loading import (
    LoadedCapture,
    load_with_notes,
    warn_of_ignored_parameters,
)
from trailgate.jobs.capture.options import Extract, IgnoreUnsupported, OnError
from trailgate.live.brokers.address import BrokerAddress
from trailgate.live.files.journal_reader import JournalIndex, JournalRange
from trailgate.live.files.journal_writer import StoredMessages
from trailgate.live.jobs.feed import check_journalled, make_receiver
from trailgate.live.jobs.journal_stream import TransactionBoundaries, operations_of
from trailgate.live.jobs.source import URL, broker_address
from trailgate.live.jobs.storing_receiver import StoringReceiver
from trailgate.messages.message_ids import MessageIdRule
from trailgate.model.shapes import Projection
from trailgate.options import (
    COUNT,
    FLAG,
    NAMES,
    PATH,
    TEXT,
    Option,
    Options,
    option_from_annotation,
)
from trailgate.spark.errors import with_brief_errors
from trailgate.spark.options import BASE, one_path, read_with_paths
from trailgate.spark.sources import Offset, PartitionReader, SparkSource
from trailgate.storage.files.addresses import is_pattern

JOURNAL_SPLIT_BYTES: Final = 16 << 20
IDLE_SECONDS: Final = 2
OPTIONS: Final = Options(
    "jms",
    (
        Option("url", TEXT, "the broker's queue or topic, for example stomp://HOST/QUEUE"),
        Option("user", TEXT, "the user, if the url has none"),
        Option("password", TEXT, "the password, if the url has none"),
        Option("receive", FLAG, "false: only follow the journal, which another process fills"),
        Option("properties", PATH, "the capture's properties: operations instead of messages"),
        option_from_annotation("extract", Extract),
        option_from_annotation("ignore_unsupported", IgnoreUnsupported, False),
        Option("table", TEXT, "this table's operations in the types of its columns"),
        Option("columns", NAMES, "only these columns, comma-separated"),
        option_from_annotation("on_error", OnError, "stop"),
        Option(
            "max_messages_per_trigger",
            COUNT,
            "the maximum number of messages in a batch of a stream",
        ),
        Option(
            "split_bytes", COUNT, "the bytes of messages that a task parses", JOURNAL_SPLIT_BYTES
        ),
        Option(
            "idle_seconds",
            COUNT,
            "the seconds without a new message after which availableNow ends",
            IDLE_SECONDS,
        ),
        BASE,
    ),
)
MESSAGES: Final = pa.schema(
    [
        ("number", pa.int64()),
        ("id", pa.string()),
        ("received", pa.timestamp("us", "UTC")),
        ("headers", pa.map_(pa.string(), pa.string())),
        ("body", pa.binary()),
        ("fault", pa.string()),
    ]
)
WAIT_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class JmsOptions:
    """The options of the Spark format ``jms``: the journal, the broker that fills it, and the capture for its messages.

    ``address`` is None if another process fills the journal. Without a ``capture`` the rows are
    messages; otherwise they are operations, and ``projection`` determines their columns.
    ``quarantine`` is the folder for bad messages; if it is None, a bad message stops the stream.
    ``most`` is the maximum number of messages in a batch, or None. ``split_bytes`` and
    ``idle_seconds`` are described in ``OPTIONS``.
    """

    journal: Path
    address: BrokerAddress | None
    capture: Capture | None
    projection: Projection | None
    quarantine: Path | None
    most: int | None
    split_bytes: int
    idle_seconds: float

    @classmethod
    def of(cls, given: Mapping[str, Any], folder: str | None = None) -> Self:
        """Parse the options of the format ``jms``. Relative paths start at ``folder``. Raises OptionError."""
        paths, values = read_with_paths(OPTIONS, given, '.load("dirdat/ot.journal")', folder)
        journal = Path(one_path(paths, "a stream of the format jms"))
        if is_pattern(str(journal)) and not journal.exists():
            raise OptionError(
                f"a stream of the format jms takes one journal, not the pattern {journal}"
            )
        loaded = _load(values)
        capture = projection = quarantine = None
        if loaded is not None:
            capture, name = loaded.capture, values["table"]
            table = None if name is None else capture.definitions.table(name)
            projection = Projection.of(table, values["columns"])
        if values["on_error"] == "quarantine":
            quarantine = journal.with_name(f"{journal.name}.quarantine")
        return cls(
            journal,
            _address(values, {} if loaded is None else dict(loaded.connection)),
            capture,
            projection,
            quarantine,
            values["max_messages_per_trigger"],
            values["split_bytes"],
            values["idle_seconds"],
        )

    @property
    def message_ids(self) -> MessageIdRule | None:
        """The rule by which the Spark format ``jms`` compares message ids, or None if it does not."""
        return None if self.capture is None else MessageIdRule.of(self.capture.options)

    def schema(self) -> pa.Schema:
        """Return the schema of the format ``jms``: that of operations or of messages."""
        return MESSAGES if self.projection is None else self.projection.schema


def _load(values: Mapping[str, Any]) -> LoadedCapture | None:
    """Load the capture of a ``jms`` stream, which turns messages into operations.

    Returns None if no properties are given. Raises OptionError for an option that applies only to
    operations.
    """
    if values["properties"] is None and values["extract"] is None:
        for name in ("table", "columns", "on_error", "ignore_unsupported"):
            row = OPTIONS.row(name)
            if values[name] != row.default:
                problem = f"the option {row.spelling} applies only to operations"
                hint = "The options properties and extract make them"
                raise OptionError(problem, hint=hint)
        return None
    loaded = load_with_notes(
        values["properties"],
        values["extract"],
        base=values["base"],
        ignore_unsupported=values["ignore_unsupported"],
    )
    warn_of_ignored_parameters(loaded)
    return loaded


def _address(values: Mapping[str, Any], connection: Mapping[str, str]) -> BrokerAddress | None:
    """Return the address of the broker that fills the journal, from the option url or the properties."""
    url, wanted = values["url"], values["receive"]
    named = url is not None or URL in connection
    if (wanted and not named) or (wanted is False and url is not None):
        problem = f"receive is {str(wanted).lower()}, and {'a' if named else 'no'} url is given"
        raise OptionError(problem, hint="Give url=stomp://HOST/QUEUE, without receive")
    if wanted is False or not named:
        for name in ("user", "password", "idle_seconds"):
            if values[name] != OPTIONS.row(name).default:
                problem = f"the option {OPTIONS.row(name).spelling} applies only to a broker, but no broker is given"
                raise OptionError(problem, hint="Give url, for example stomp://HOST/QUEUE")
        return None
    # The options replace the login of the properties, but may not contradict that in the url.
    given = {"jms.user": values["user"], "jms.password": values["password"]}
    known = {**connection, **{name: text for name, text in given.items() if text is not None}}
    address = broker_address(() if url is None else (url,), known, values["base"])
    if address is None:
        problem = "the option url is not the address of a broker"  # it may have a password
        raise OptionError(problem, hint="For example stomp://HOST/QUEUE or amqp://HOST/QUEUE")
    if url is not None and not _is_login(address, values):
        problem = "the options user and password differ from the login in the url"
        raise OptionError(problem, hint="State it in one place")
    check_journalled(address)
    return address


def _is_login(address: BrokerAddress, values: Mapping[str, Any]) -> bool:
    """Return whether a broker address has the same user and password as the options, if these are set."""
    return all(
        values[name] in (None, stated)
        for name, stated in (("user", address.user), ("password", address.password))
    )


@with_brief_errors
class JmsStreamReader(PartitionReader, DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # pyspark's types are not followed
    """A stream of the Spark format ``jms``.

    It reads a journal, and fills the journal if a broker is given.
    """

    def __init__(self, options: JmsOptions, schema: StructType) -> None:
        self._options, self._schema = options, schema
        self._index = JournalIndex(options.journal)
        capture = options.capture
        stop = options.quarantine is None
        self._boundaries = (
            None if capture is None else TransactionBoundaries(self._index, capture, stop=stop)
        )
        self._receiver: StoringReceiver | None = None
        self._released = 0
        self._to_the_end = False
        self._target: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        """Return the offset of a new stream: the number of the first message in the journal."""
        return {"message": self._index.extent().first}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        """Return the limit of a batch of journal messages from the options."""
        most = self._options.most
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802  Spark's name
        """Return the end of the next batch of journal messages.

        For operations, the end is between two transactions.
        """
        begin = int(start["message"])
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        self._receive(begin)
        while True:
            end = self._end(begin)
            # The batch ends between two transactions. With availableNow, wait until there is such a
            # border or the broker is quiet.
            stop = self._cut(begin, end, most)
            if stop > begin or not self._is_waiting():
                return {"message": stop}
            time.sleep(WAIT_SECONDS)

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802  Spark's name
        """Return the end of the journal, from which Spark computes the lag of the stream."""
        return {"message": self._index.extent().end}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """Let the stream end at the current end of the journal or, with a broker, when no more messages arrive."""
        self._to_the_end = True

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the partitions of a batch of the journal: a few megabytes of complete transactions each."""
        begin, stop = int(start["message"]), int(end["message"])
        complete = self._index.range(begin, stop)
        cuts = [begin]
        # move each cut back to a border between transactions
        for cut in self._index.cuts(begin, stop, self._options.split_bytes):
            border = cut if self._boundaries is None else self._boundaries.last(cuts[-1], cut)
            if border > cuts[-1]:
                cuts.append(border)
        # The batch is too small to be divided, or is one transaction.
        if len(cuts) == 1:
            return [InputPartition(complete)] if stop > begin else []
        cuts.append(stop)
        ranges = (self._index.range(*pair) for pair in pairwise(cuts))
        return [InputPartition(part) for part in ranges]

    def rows(self, part: JournalRange) -> Iterator[pa.RecordBatch]:
        """Yield the journal's messages in a range, or their operations."""
        options = self._options
        if options.capture is None or options.projection is None:
            return (_rows(stored) for stored in part.read())
        parsed = operations_of(part, options.capture, options.quarantine)
        return (options.projection.rows(batch) for batch in parsed if batch.rows)

    def stop(self) -> None:
        """Disconnect from the broker properly, if Spark allows enough time for it."""
        if self._receiver is not None:
            self._receiver.close()

    def _receive(self, begin: int) -> None:
        """Start to receive if a broker is given, and delete the journal's messages before ``begin``.

        Spark has committed the batches before this number.
        """
        if self._options.address is None:
            return
        if self._receiver is None:
            receiver = make_receiver(self._options.address)
            rule = self._options.message_ids
            self._receiver = StoringReceiver(receiver, self._options.journal, rule=rule)
        self._receiver.check()
        if begin > self._released:
            self._receiver.release(begin)
            self._released = begin

    def _end(self, begin: int) -> int:
        """Return the number after the last journal message that the stream may use now.

        Raises StorageError if the journal ends before ``begin``: it is not the stream's journal.
        """
        held = self._index.extent().end
        # Messages that are stored but not synced yet could be lost in a crash, so use only what the
        # receiver has synced.
        end = held if self._receiver is None else min(held, self._receiver.end)
        if end < begin:
            problem = f"the journal ends before message {end}, but the stream continues at {begin}"
            hint = "It is not the journal that belongs to the stream's checkpoint: restore that one"
            raise StorageError(problem, where=Where(source=str(self._options.journal)), hint=hint)
        if self._to_the_end and self._receiver is None:
            # availableNow without a broker ends where the journal ended at the first batch
            self._target = end if self._target is None else self._target
            return min(end, max(begin, self._target))
        return end

    def _cut(self, begin: int, end: int, most: int | None) -> int:
        """Return the end of a batch of journal messages within the available ones [begin, end).

        ``most`` is the maximum number of messages, or None. A transaction with more messages is one
        batch.
        """
        if self._boundaries is None:
            return end if most is None else min(end, begin + most)
        if most is None:
            return self._boundaries.last(begin, end)
        # At least one transaction, even if it has more messages than the limit.
        return self._boundaries.last_within(begin, most, end)

    def _is_waiting(self) -> bool:
        """Return whether an empty batch of the journal should wait for more messages.

        That is so with availableNow and a broker, until the broker has sent nothing for the option
        idle_seconds.
        """
        if not self._to_the_end or self._receiver is None:
            return False
        self._receiver.check()
        return not self._receiver.is_quiet(self._options.idle_seconds)


def _rows(stored: StoredMessages) -> pa.RecordBatch:
    messages = stored.messages
    numbers = pa.array(np.arange(stored.number, stored.end))
    columns = [messages[name].cast(MESSAGES.field(name).type) for name in MESSAGES.names[1:]]
    return pa.RecordBatch.from_arrays([numbers, *columns], schema=MESSAGES)


@with_brief_errors
class JmsSource(SparkSource):
    """The Spark format ``jms``: messages in the order in which they were received; with ``properties`` their operations."""

    format = "jms"
    does = "It can only be read as a stream: spark.readStream.format('jms')"
    _reads = JmsOptions

    def _stream(self, schema: StructType) -> DataSourceStreamReader:
        return JmsStreamReader(self.read_options(schema), schema)
