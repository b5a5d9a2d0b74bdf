"""Parse messages in any DataFrame (from Kafka, files, or a table) into operations.

Each row is a message. Each Spark partition is parsed by itself in a task (``mapInArrow``), so no
transaction may span messages.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    MapType,
    NullType,
    StringType,
    StructType,
)

from trailgate.capture.capture import Capture
from trailgate.columnar.rows import join_small_batches
from trailgate.errors import DecodeError, OptionError, TrailgateError, Where
from trailgate.jobs.capture.loading import load_capture
from trailgate.messages.message_batch import TOMBSTONE, MessageBatch
from trailgate.messages.property_rows import SourceKind
from trailgate.messages.skipped import (
    SkippedMessages,
    SkippedTotals,
    add_skipped,
    skipped_notes,
)
from trailgate.model.changes import ChangeBatch
from trailgate.model.shapes import Projection
from trailgate.options import NAMES, Option, check_arguments
from trailgate.spark.errors import brief_rows
from trailgate.spark.frames import check_frame
from trailgate.spark.schemas import cast_batches, spark_schema

LOG: Final = logging.getLogger(__name__)
COLUMNS: Final = Option("columns", NAMES, "only these columns, comma-separated")
FAULT: Final = "fault"  # in a DataFrame of the format jms: why a message cannot be used
BODIES: Final = ("body", "value")  # names of the message's column: ours, and Kafka's


@check_arguments
def capture(  # noqa: PLR0913  one parameter an option
    frame: DataFrame,
    properties: str | os.PathLike[str] | None = None,
    *,
    extract: str | os.PathLike[str] | None = None,
    table: str | None = None,
    columns: Sequence[str] | None = None,
    ignore_unsupported: bool = False,
    base: str | os.PathLike[str] | None = None,
) -> DataFrame:
    """Parse a DataFrame with one message per row, for example from Kafka, into a DataFrame of operations.

    A row has the column ``body`` (or Kafka's ``value``), which is text or bytes. ``headers`` is
    optional: a map of strings, or Kafka's array of structs of key and value (``includeHeaders``).

    A properties file configures the capture, or an Extract parameter file that names one;
    ``ignore_unsupported`` accepts a parameter file with unsupported parameters. Relative paths,
    also those in the files, start at ``base``, or at the working folder. ``table`` returns only
    that table's rows, with columns in their types; ``columns`` selects columns. The position of a
    message is the number of its partition and its row in it; generated ids are made from these.
    Reading stops at the first bad message.

    Raises OptionError if transactions span messages, because the rows of a DataFrame have no order
    that would keep them together, and for a stream whose ids are generated, because each batch
    would generate the same ids.
    """
    check_frame(frame)
    chosen = None if columns is None else COLUMNS.value(columns)
    parser = load_capture(properties, extract, base=base, ignore_unsupported=ignore_unsupported)
    _check(frame, parser)
    projection = Projection.of(None if table is None else parser.definitions.table(table), chosen)
    schema = spark_schema(projection.schema)
    # Workers know no session, so the time zone is read here.
    zone = str(frame.sparkSession.conf.get("spark.sql.session.timeZone"))

    @brief_rows
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parsed = parse_rows_of_partition(parser, batches, TaskContext.get().partitionId())
        return cast_batches(map(projection.rows, parsed), schema, zone)

    return _messages(frame).mapInArrow(run, schema)


def parse_rows_of_partition(
    parser: Capture, batches: Iterator[pa.RecordBatch], partition: int
) -> Iterator[ChangeBatch]:
    """Parse the messages in a DataFrame's partition, one per row, in a Spark task, and yield their operations.

    The partition's warnings are logged at the end. The position of a message is the number of the
    partition and the message's row number in it. Raises the first error.
    """
    row = 0
    notes: frozenset[str] = frozenset()
    skipped: SkippedTotals = {}
    tombstones = parser.options.has_tombstones
    for batch in join_small_batches(batches):
        try:
            messages = messages_of_rows(batch, partition, row, tombstones=tombstones)
            parsed = parser.parse(messages)
            if parsed.problems:
                raise parsed.problems[0].error
        except TrailgateError as error:
            raise error.with_place(source=f"partition {partition}") from None
        row += batch.num_rows
        notes |= parsed.notes
        skipped = add_skipped(skipped, _count_skips(parsed.skipped))
        yield parsed.batch
    for note in (*sorted(parser.warnings_of_part(notes)), *skipped_notes(skipped)):
        LOG.warning(note)


def _count_skips(skipped: SkippedMessages) -> SkippedTotals:
    """Count the messages of a DataFrame that contain no operation, each located by its partition and row."""

    def place(at: int) -> Where:
        partition = int(skipped.files[at])
        return Where(source=f"partition {partition}", message=int(skipped.offsets[at]))

    return skipped.totals(place)


def _messages(frame: DataFrame) -> DataFrame:
    """Select the columns of a DataFrame of messages: body (or Kafka's value), and headers and fault if they exist."""
    body = next(name for name in BODIES if name in frame.columns)
    named = [frame[body].alias(BODIES[0])]
    named += [frame[name] for name in ("headers", FAULT) if name in frame.columns]
    return frame.select(*named)


def _check(frame: DataFrame, parser: Capture) -> None:
    if parser.spans_messages:
        problem = "transactions that span messages (txind) cannot be taken from a DataFrame"
        hint = 'Let the format "jms" make the operations (option properties), or capture into a trail first'
        raise OptionError(problem, hint=hint)
    if not any(name in frame.columns for name in BODIES):
        problem = "there is neither a column body nor Kafka's value"
        raise OptionError(problem, hint="One row is one message")
    _check_types(frame)
    kinds = (parser.options.txid.kind, parser.options.seqid.kind)
    if frame.isStreaming and (SourceKind.TX_ID in kinds or SourceKind.SEQ_ID in kinds):
        problem = "ids that are generated (*txid, *seqid) repeat in each batch of a stream"
        raise OptionError(problem, hint="Name fields or headers that have them")


def _check_types(frame: DataFrame) -> None:
    """Raise OptionError if a column of a DataFrame of messages has an unsupported type."""
    body = next(name for name in BODIES if name in frame.columns)
    text = (StringType, BinaryType)
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    if not isinstance(kinds[body], (*text, NullType)):
        problem = (
            f"the column {body} is {kinds[body].simpleString()}, but a message is text or bytes"
        )
        raise OptionError(problem, hint=f"Cast it, for example frame.{body}.cast('string')")
    headers = kinds.get("headers", NullType())
    # Kafka's headers are an array of structs; others are a map
    pair: Any = headers.elementType if isinstance(headers, ArrayType) else None
    if isinstance(headers, MapType):
        known = [headers.keyType, headers.valueType]
    else:
        known = [field.dataType for field in pair.fields] if isinstance(pair, StructType) else []
    fits = len(known) == len(("key", "value")) and all(isinstance(one, text) for one in known)
    if not fits and not isinstance(headers, NullType):
        problem = f"the column headers is {headers.simpleString()}"
        hint = "Headers are a map of strings, or an array of structs of key and value"
        raise OptionError(problem, hint=hint)
    if FAULT in kinds and not isinstance(kinds[FAULT], StringType | NullType):
        raise OptionError(f"the column {FAULT} is {kinds[FAULT].simpleString()}, not a string")


def _headers(entries: Iterable[Any], row: int) -> dict[str, str]:
    """Convert the headers of a message in a DataFrame, which are pairs of a map or Kafka's structs.

    Headers without a value are skipped. ``row`` is the row number for errors.
    """
    # Arrow returns a map as pairs, and Kafka's structs as dictionaries.
    pairs = [tuple(pair.values()) if isinstance(pair, dict) else pair for pair in entries]
    headers: dict[str, str] = {}
    for name, value in pairs:
        if value is None:
            continue
        try:
            text = value if isinstance(value, str) else bytes(value).decode()
        except UnicodeDecodeError:
            where = Where(message=row, field=name, raw=bytes(value))
            raise DecodeError("the header is not UTF-8", where=where) from None
        if headers.setdefault(name, text) != text:
            where = Where(message=row, field=name, raw=text.encode())
            raise DecodeError("the header occurs twice with different values", where=where)
    return headers


def messages_of_rows(
    batch: pa.RecordBatch, partition: int, row: int, *, tombstones: bool = False
) -> MessageBatch:
    """Convert a batch of a DataFrame's rows to messages.

    The position of a message has ``partition`` as the file number, and its row number, which starts
    at ``row``, as the offset. Raises DecodeError if a body is null, or if the column ``fault`` has
    a text, which is then the error. If the format has ``tombstones``, messages without a body are
    valid.
    """
    body = batch.column("body").cast(pa.large_binary())
    # For these formats, a message without a body is not a fault.
    if tombstones:
        body = body.fill_null(b"")
    if body.null_count:
        first = int(np.flatnonzero(body.is_null().to_numpy(zero_copy_only=False))[0])
        raise DecodeError("the body is null", where=Where(message=row + first))
    if FAULT in batch.schema.names and batch[FAULT].null_count < len(batch):
        faults = batch[FAULT]
        if tombstones:
            faults = pc.if_else(pc.equal(faults, TOMBSTONE), pa.scalar(None, faults.type), faults)
        bad = np.flatnonzero(np.asarray(faults.is_valid()))
    else:
        bad = np.zeros(0, np.int64)
    if len(bad):
        first = int(bad[0])
        raise DecodeError(batch[FAULT][first].as_py(), where=Where(message=row + first))
    # Use Arrow's own buffers: message i is data[bounds[i]:bounds[i+1]]. A sliced array starts at
    # its offset.
    _, bounds, data = body.buffers()
    ends = np.frombuffer(bounds, np.int64)[body.offset : body.offset + len(body) + 1]
    headers = None
    if "headers" in batch.schema.names:
        headers = tuple(
            _headers(held or (), row + at)
            for at, held in enumerate(batch.column("headers").to_pylist())
        )
    row_numbers = np.arange(row, row + len(body), dtype=np.int64)
    return MessageBatch(
        data=data or pa.py_buffer(b""),
        starts=ends[:-1],
        ends=ends[1:],
        files=np.full(len(body), partition, np.int64),
        offsets=row_numbers,
        headers=headers,
        source=f"partition {partition}",
    )
