"""Publish to Kafka exactly once: messages and the position in one Kafka transaction.

The position of each group is a message of the compacted topic ``trailgate-positions``; the key is
the group. ``init_transactions`` is called before the position is read: it ends an open transaction
of a killed run, and fences off a run that is still active.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask
from trailgate.errors import (
    BrokerError,
    BrokerFullError,
    BrokerRefusedError,
    EncodeError,
    OptionError,
    Where,
    did_you_mean,
)
from trailgate.jobs.retries import PATIENCE
from trailgate.live.brokers.address import BrokerAddress, check_tls_files
from trailgate.live.brokers.kafka import (
    ConnectionTrouble,
    client_settings,
    consumer_settings,
    import_kafka,
)
from trailgate.model.changes import DELETE
from trailgate.publish.senders.sender import (
    EXACTLY_ONCE,
    GROUP_HEADER,
    LOG,
    POSITION_HEADER,
    OutgoingMessages,
    wait_for_broker,
)
from trailgate.publish.senders.topics import TopicNames

POSITIONS: Final = "trailgate-positions"
CLEANUP: Final = "cleanup.policy"
COMPACT: Final = "compact"
TRANSACTION_SECONDS: Final = 60  # after which a broker aborts a transaction that nobody ends
SLOW_SECONDS: Final = (
    0.75 * TRANSACTION_SECONDS
)  # after which an error means that the broker is too slow
UNDONE_SECONDS: Final = 5.0  # after which it is logged that a batch is not committed yet
UNDONE: Final = "Kafka has not accepted the batch yet"
NOT_READ: Final = "Run it again. If it fails again, check that the topic's partition has a leader"
SLOW: Final = "A quota of this login, or a slow or full disk of the broker may be the reason"
SECONDS: Final = 60.0  # of a request
ABORT_SECONDS: Final = 5.0  # in which a broker that runs aborts a transaction
MANY: Final = 1_000_000  # messages in the library's queue
MOST_BYTES: Final = 1 << 20  # of the library's queue, in KiB
LARGEST: Final = 1_000_000_000  # bytes of a message, as far as the library is concerned
BATCH_BYTES: Final = 1_000_000  # of one batch to a partition
LIMIT: Final = 1_048_588  # bytes of a message that Kafka takes by default
# Bytes of a message beside key, value and headers: the head of its batch and lengths.
OVERHEAD: Final = 61 + 21
WINDOW: Final = 100  # messages before the end in which the last position is looked for first
COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
# What the library reports itself is raised as errors.
_QUIET: Final = logging.getLogger("trailgate.brokers.kafka-library")
_QUIET.propagate = False
_QUIET.addHandler(logging.NullHandler())


class KafkaSender:
    """Sends each message once to Kafka topics; see ``Sender``."""

    guarantee = EXACTLY_ONCE

    def __init__(
        self, address: BrokerAddress, group: str, *, is_whole: bool, has_tombstones: bool
    ) -> None:
        check_tls_files(address)
        self._address, self._group = address, group
        self._where = Where(source=str(address))
        self._names = TopicNames(address.destination, POSITIONS)
        self._names.check_fields(is_whole=is_whole)
        self._tombstones = _switch(address, "tombstones") and has_tombstones
        self._compression = _choice(address, "compression", COMPRESSIONS)
        self._create = _partitions(address)
        self._kafka = import_kafka()
        self._patience = address.number("patience", PATIENCE)
        self._limits: dict[str, int] = {}
        self._batch_bytes = BATCH_BYTES
        self._producer: Any = None
        self._admin_client: Any = None
        self._trouble = ConnectionTrouble(address, self._kafka)
        self._begun: float | None = None  # when the open transaction has begun

    @property
    def tables(self) -> Sequence[str]:
        """The tables that have a separate Kafka topic so far; see ``TopicNames.tables``."""
        return self._names.tables

    def remember(self, tables: Iterable[str]) -> None:
        """Add the tables to which earlier runs have assigned topics; see ``Sender``."""
        self._names.remember(tables)

    def open(self) -> str | None:
        """Fence off other runs of this group by Kafka's transactional id, and return the group's stored state; see ``Sender``."""
        self.close()
        self._begun = None
        self._limits = {}  # a topic may have been deleted
        with self._errors():
            self._check_positions()
            self._make_producer()
            return self._read()

    def read(self) -> str | None:
        """Return the group's state stored in Kafka without fencing off other runs; see ``Sender``."""
        with self._errors():
            return self._read() if POSITIONS in self._existing() else None

    def check(self, parts: Iterable[OutgoingMessages]) -> None:
        """Create missing Kafka topics if the address allows it, and check the sizes of messages; see ``Sender``."""
        with self._errors():
            for part in parts:
                topics = self._names.of_messages(part.origins)
                self._check_topics(set(topics))
                self._check_sizes(part, topics)

    def send(self, parts: Iterable[OutgoingMessages], state: str) -> None:
        """Send messages and the state in one Kafka transaction; see ``Sender``."""
        with self._errors():
            self._producer.begin_transaction()
            self._begun = time.monotonic()
            try:
                rows = chain.from_iterable(map(self._rows, parts))
                first = next(rows, None)
                # Right before the first message, so that the library adds the partitions of both to
                # the transaction by one request. As the last message it costs a second request.
                self._producer.produce(POSITIONS, state.encode(), self._group.encode(), 0)
                if first is not None:
                    self._produce(chain([first], rows))
                self._commit()
            except BaseException:
                # The producer is not used again: after an abort its sequence numbers may be wrong.
                self.close()
                raise
            self._begun = None

    def close(self) -> None:
        """Disconnect from Kafka. An open transaction is aborted, if the broker answers."""
        producer, self._producer = self._producer, None
        if producer is not None and self._begun is not None:
            # The library's own close aborts too, but waits without end for a broker that has stopped.
            # If nobody aborts, the next run of the group does so, or the broker after some time.
            with suppress(self._kafka.KafkaException):
                producer.abort_transaction(ABORT_SECONDS)
        # The library disconnects when the last reference to the producer is gone.

    def _make_producer(self) -> None:
        self._trouble.clear()
        settings = {
            **client_settings(self._address),
            "acks": "all",
            "enable.idempotence": True,
            "transactional.id": f"trailgate-{self._group}",
            "transaction.timeout.ms": TRANSACTION_SECONDS * 1000,
            "partitioner": "murmur2_random",  # as Java's
            "linger.ms": 5,
            "batch.size": self._batch_bytes,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": MANY,
            "queue.buffering.max.kbytes": MOST_BYTES,
            "message.max.bytes": LARGEST,
            "compression.type": self._compression,
            "error_cb": self._trouble.add,
        }
        self._producer = self._client(self._kafka.Producer, settings, logger=_QUIET)
        self._producer.init_transactions(self._patience)

    def _rows(self, part: OutgoingMessages) -> Iterable[Any]:
        """Return the topic, value, key and position of each Kafka message, tombstones included."""
        topics = self._names.of_messages(part.origins)
        values = part.messages.bodies.to_pylist()
        # Bytes, since the library encodes text message by message.
        positions = part.origins.positions.cast(pa.binary()).to_pylist()
        rows: Iterable[Any] = zip(topics, values, self._keys(part), positions, strict=True)
        if (deletes := self._deletes(part)).any():
            rows = _with_tombstones(rows, deletes)
        return rows

    def _produce(self, rows: Iterable[Any]) -> None:
        """Pass messages to librdkafka, which sends them in the background. Waits if its queue is full."""
        produce, poll = self._producer.produce, self._producer.poll
        group = GROUP_HEADER, self._group.encode()
        for topic, value, key, position in rows:
            headers = [(POSITION_HEADER, position), group]
            while True:
                try:
                    produce(topic, value, key, headers=headers)
                    break
                except BufferError:
                    poll(0.1)
        poll(0)

    def _keys(self, part: OutgoingMessages) -> list[bytes]:
        """Return the Kafka message keys as a list of bytes."""
        return self._key_column(part).to_pylist()  # type: ignore[no-any-return]

    def _key_column(self, part: OutgoingMessages) -> pa.Array:
        """Return the Kafka message keys: from the format, else the table's name, else the group's name."""
        tables = part.origins.tables.cast(pa.binary()).fill_null(self._group.encode())
        keys = part.messages.keys
        if keys is None:
            return tables
        keys = keys.cast(pa.binary())
        empty = pc.equal(pc.binary_length(keys), 0).fill_null(fill_value=True)
        return pc.if_else(empty, tables, keys)

    def _deletes(self, part: OutgoingMessages) -> Mask:
        """Return a mask of the messages that a Kafka tombstone follows: deletes, if the option is set."""
        if not self._tombstones:
            return np.zeros(len(part.messages), bool)
        deletes: Mask = part.origins.op_types == DELETE
        return deletes & ~part.origins.marks

    def _commit(self) -> None:
        """Commit the Kafka transaction after the broker has received all messages."""
        if not wait_for_broker(
            self._is_committed, TRANSACTION_SECONDS, UNDONE, self._where, quiet=UNDONE_SECONDS
        ):
            while not self._is_committed(SECONDS):
                pass

    def _is_committed(self, seconds: float) -> bool:
        """Commit the Kafka transaction, waiting for at most ``seconds``.

        Returns False if it has to be tried again.
        """
        try:
            self._producer.commit_transaction(seconds)
        except self._kafka.KafkaException as error:
            if not error.args[0].retriable():
                raise
            return False
        return True

    def _existing(self) -> Mapping[str, Any]:
        """Return all topics of the Kafka broker by name.

        A request for a single topic might create it. Retries until the option patience is over.
        """
        admin = self._admin()
        until, is_logged = time.monotonic() + self._patience, False
        while True:
            try:
                return admin.list_topics(timeout=2).topics  # type: ignore[no-any-return]
            except self._kafka.KafkaException as error:
                # Runs the callbacks, one of which may add a refusal: then no retry can help.
                admin.poll(0)
                if self._trouble.refusal is not None or time.monotonic() > until:
                    raise
                if not is_logged:
                    problem, is_logged = self._error(error).problem, True
                    LOG.warning("%s (%s); trying again", problem, self._where)

    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415  an extra

        if self._admin_client is None:
            settings = {**client_settings(self._address), "error_cb": self._trouble.add}
            self._admin_client = self._client(AdminClient, settings, logger=_QUIET)
        return self._admin_client

    def _client(self, kind: Callable[..., Any], settings: dict[str, Any], **more: Any) -> Any:
        try:
            return kind(settings, **more)
        except (self._kafka.KafkaException, TypeError, ValueError) as error:
            reason = error.args[0] if error.args else error
            text = reason.str() if isinstance(reason, self._kafka.KafkaError) else str(reason)
            problem = f"Kafka's library refuses the address: {text}"
            raise OptionError(problem, where=self._where) from error

    def _check_positions(self) -> None:
        """Create the Kafka topic of positions, or check that it retains the last position of each group."""
        if POSITIONS not in self._existing():
            self._make_topic(POSITIONS, 1, {CLEANUP: COMPACT})
        found = self._setting(POSITIONS, CLEANUP)
        if found is not None and found != COMPACT:
            problem = (
                f"the topic {POSITIONS} has {CLEANUP}={found}: positions would be deleted with time"
            )
            hint = f"Set {CLEANUP}={COMPACT} for it"
            raise BrokerRefusedError(problem, where=self._where, hint=hint)

    def _make_topic(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        from confluent_kafka.admin import NewTopic  # noqa: PLC0415  an extra

        new = NewTopic(name, partitions, config=dict(settings))
        for done in self._admin().create_topics([new], operation_timeout=SECONDS).values():
            try:
                done.result(SECONDS)
            except self._kafka.KafkaException as error:
                if error.args[0].code() != self._kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def _setting(self, topic: str, name: str) -> str | None:
        """Return a setting of a Kafka topic, or None if the user is not allowed to read it."""
        from confluent_kafka.admin import ConfigResource  # noqa: PLC0415  an extra

        codes = self._kafka.KafkaError
        wanted = ConfigResource(ConfigResource.Type.TOPIC, topic)
        try:
            found = self._admin().describe_configs([wanted])[wanted].result(SECONDS)
        except self._kafka.KafkaException as error:
            if error.args[0].code() != codes.TOPIC_AUTHORIZATION_FAILED:
                raise
            return None
        return str(found[name].value)

    def _check_topics(self, topics: set[str]) -> None:
        """Create missing Kafka topics if the address allows it, and read the size limits of new topics.

        Raises BrokerRefusedError if a topic is missing and may not be created.
        """
        new = sorted(topics - self._limits.keys())
        if not new:
            return
        existing = self._existing()
        for topic in new:
            if topic not in existing and self._create is None:
                known = [one for one in existing if not one.startswith("_")]  # not Kafka's own
                near = did_you_mean(topic, known)
                hint = f"{near} Create it, or add ?create to the address".strip()
                raise BrokerRefusedError(
                    f"the topic {topic} does not exist", where=self._where, hint=hint
                )
            if topic not in existing:
                self._make_topic(topic, self._create or -1, {})
            self._limits[topic] = int(self._setting(topic, "max.message.bytes") or LIMIT)
        least = min(self._limits.values())
        if least < self._batch_bytes:
            # The limit is one of batches, and the library's are the same for all topics.
            self._batch_bytes = least
            self.close()
            self._make_producer()

    def _check_sizes(self, part: OutgoingMessages, topics: list[str]) -> None:
        """Raise EncodeError if a message is too large for its Kafka topic."""
        sizes = pc.binary_length(part.messages.bodies).to_numpy()
        least = min(self._limits[topic] for topic in set(topics))
        margin = OVERHEAD + 2 * len(self._group) + 100  # and headers
        # Look at single messages only if the largest body and key together could exceed the lowest
        # limit, with the most that headers may add. That is rare, and an array of limits is saved.
        longest_key = 0
        if part.messages.keys is not None:
            longest_key = pc.max(pc.binary_length(part.messages.keys)).as_py() or 0
        if int(sizes.max(initial=0)) + longest_key + 2 * LIMIT // 1000 + margin < least:
            return
        keys = pc.binary_length(self._key_column(part)).to_numpy(zero_copy_only=False)
        totals = sizes + keys + margin
        if int(totals.max(initial=0)) < least:
            return
        limits = np.array([self._limits[topic] for topic in topics])
        for at in np.flatnonzero(totals > limits).tolist():
            table, position = part.origins.tables[at].as_py(), part.origins.positions[at].as_py()
            problem = f"the message has {totals[at]} bytes, but the topic {topics[at]} accepts at most {limits[at]} (operation at {position})"
            hint = "Raise the topic's max.message.bytes"
            raise EncodeError(problem, where=Where(table=table or ""), hint=hint)

    def _read(self) -> str | None:
        """Return the last state of this group in Kafka's topic of positions, or None.

        An open transaction of another group hides all later messages, so this function waits until
        that transaction ends.
        """
        end = self._end(committed=False)
        # Kafka's last stable offset stays before the first open transaction. Once it has reached
        # the end seen above, every state written until then can be read.
        problem = f"an open transaction hides the positions in {POSITIONS}"
        seconds = TRANSACTION_SECONDS + self._patience
        if not wait_for_broker(lambda some: self._shows(end, some), seconds, problem, self._where):
            raise BrokerError(problem, where=self._where)
        settings = {**consumer_settings(self._address), "enable.partition.eof": True}
        # The end of the topic is known by an empty answer, which a broker delays.
        settings |= {"auto.offset.reset": "earliest", "fetch.wait.max.ms": 10}
        settings["error_cb"] = self._trouble.add
        consumer = self._client(self._kafka.Consumer, settings, logger=_QUIET)
        try:
            return self._last(consumer, end)
        finally:
            consumer.close()

    def _shows(self, end: int, seconds: float) -> bool:
        """Wait until no open Kafka transaction hides positions before the offset ``end``.

        Returns whether that was so within ``seconds``.
        """
        until = time.monotonic() + seconds
        while self._end(committed=True) < end:
            if time.monotonic() > until:
                return False
            time.sleep(0.1)
        return True

    def _end(self, *, committed: bool) -> int:
        """Return the end offset of Kafka's topic of positions.

        If ``committed`` is set, this is the offset of the first message of an open transaction, if
        there is one.
        """
        from confluent_kafka import IsolationLevel  # noqa: PLC0415  an extra
        from confluent_kafka.admin import OffsetSpec  # noqa: PLC0415  an extra

        levels = IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED
        place = self._kafka.TopicPartition(POSITIONS, 0)
        asked = self._admin().list_offsets(
            {place: OffsetSpec.latest()}, isolation_level=levels[committed]
        )
        return int(asked[place].result(SECONDS).offset)

    def _last(self, consumer: Any, end: int) -> str | None:
        """Find the last state of this group before the offset ``end``, or return None.

        The topic is read backwards, in ranges of offsets of which each is ten times as long as the
        one before.
        """
        width, stop, key = WINDOW, end, self._group.encode()
        while stop > 0:
            begin = max(0, stop - width)
            consumer.assign([self._kafka.TopicPartition(POSITIONS, 0, begin)])
            states = [one for one in self._messages(consumer, stop) if one.key() == key]
            if states:
                # A tombstone forgets the group, as if compaction had already removed it.
                value = states[-1].value()
                return None if value is None else value.decode("utf-8", "replace")
            stop, width = begin, width * 10
        return None

    def _messages(self, consumer: Any, stop: int) -> Iterator[Any]:
        """Yield the messages of Kafka's topic of positions up to the offset ``stop``.

        Raises BrokerError if that offset is not reached within ``SECONDS``.
        """
        until = time.monotonic() + SECONDS
        codes = self._kafka.KafkaError
        while time.monotonic() < until:
            for one in consumer.consume(5000, timeout=0.1):
                error = one.error()
                if error is None:
                    if one.offset() >= stop:
                        return
                    yield one
                elif error.code() == codes._PARTITION_EOF:  # noqa: SLF001  the library's public name
                    # The broker may report an end before transactions that it has not shown yet.
                    if one.offset() >= stop:
                        return
                else:
                    raise self._kafka.KafkaException(error)
        problem = f"the topic {POSITIONS} was not read up to offset {stop} within {SECONDS:.0f} s"
        raise BrokerError(problem, where=self._where, hint=NOT_READ)

    def _errors(self) -> _KafkaErrors:
        return _KafkaErrors(self._kafka, self._error)

    def _error(self, error: Any) -> BrokerError:
        codes, reason = self._kafka.KafkaError, error.args[0]
        trouble = self._trouble
        if trouble.refused is not None:
            return trouble.refused
        refused = reason.code() in {
            codes.TOPIC_AUTHORIZATION_FAILED,
            codes.CLUSTER_AUTHORIZATION_FAILED,
            codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            codes._AUTHENTICATION,  # noqa: SLF001  the library's public name
            codes.POLICY_VIOLATION,
            codes.INVALID_CONFIG,
        }
        seconds = 0.0 if self._begun is None else time.monotonic() - self._begun
        if seconds > SLOW_SECONDS and not refused:
            problem = f"Kafka did not accept the batch within {seconds:.0f} s: {reason.str()}"
            return BrokerFullError(problem, where=self._where, hint=SLOW)
        if reason.code() in (codes._FENCED, codes.INVALID_PRODUCER_EPOCH, codes.PRODUCER_FENCED):  # noqa: SLF001  as above
            problem = "another run of this group has begun"
            return BrokerError(f"Kafka: {problem}: {reason.str()}", where=self._where)
        kind = BrokerRefusedError if refused else BrokerError
        cause = "" if trouble.reason is None else f" ({trouble.reason})"
        return kind(f"Kafka: {reason.str()}{cause}", where=self._where, hint=trouble.hint)


class _KafkaErrors:
    """A context manager that converts errors of the Kafka library to BrokerError."""

    def __init__(self, library: Any, convert: Callable[[Any], BrokerError]) -> None:
        self._library, self._convert = library, convert

    def __enter__(self) -> None:
        """Do nothing: only the exit matters."""

    def __exit__(self, kind: object, error: object, _: object) -> None:
        """Raise BrokerError for an error of the Kafka library."""
        if isinstance(error, self._library.KafkaException):
            raise self._convert(error) from error


def _with_tombstones(rows: Iterable[Any], deletes: Mask) -> Iterator[Any]:
    """Yield Kafka messages, and after each delete a tombstone: a message without a value.

    With it, a compacted topic removes the key.
    """
    for (topic, value, key, position), is_deleted in zip(rows, deletes.tolist(), strict=True):
        yield topic, value, key, position
        if is_deleted:
            yield topic, None, key, position


def _switch(address: BrokerAddress, name: str) -> bool:
    return _choice(address, name, ("true", "false")) == "true"


def _choice(address: BrokerAddress, name: str, choices: Sequence[str]) -> str:
    """Return the value of a Kafka address's option that allows only some words; the first is the default."""
    value = address.options.get(name, choices[0]).casefold()
    if value not in choices:
        problem = f"{name} is {value!r}, not one of {', '.join(choices)}"
        raise OptionError(problem, where=Where(source=str(address)))
    return value


def _partitions(address: BrokerAddress) -> int | None:
    """Return the number of partitions with which missing Kafka topics are created (option create).

    None means that no topics are created, and 0 that the broker's default is used.
    """
    text = address.options.get("create")
    if text is None:
        return None
    if text and not (text.isdecimal() and int(text)):
        problem = f"create is {text!r}, not the number of partitions of new topics"
        raise OptionError(
            problem, where=Where(source=str(address)), hint="As in ?create or ?create=4"
        )
    return int(text or 0)
