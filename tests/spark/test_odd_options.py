"""Values of Spark's options that cannot be meant: empty, unknown, misplaced, contradictory. Each is an error of ours, or has a notice.

The options are those of the formats' tables, so that a new option is tried by its row. All formats are asked in this process, as Spark's workers ask them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from pyspark import cloudpickle
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import IntegerType, StringType, StructType

from capture_place import Place, row
from sample_trail import Op, write_trail
from trailgate.apply.spark import writer as apply_sink
from trailgate.errors import OptionError, TrailgateError
from trailgate.live import spark as jms
from trailgate.mainframe.spark import reader as copybook
from trailgate.mainframe.spark import writer as copybook_sink
from trailgate.model.changes import OPERATIONS_SCHEMA
from trailgate.options import COUNT, FLAG, NAMES, PATHS, Option, Options
from trailgate.publish.spark.source import MESSAGES, PublishingTrailSource, message_options
from trailgate.spark import message_files, trail, trail_sink
from trailgate.spark.sessions import FORMATS, STREAMED
from trailgate.spark.sources import SparkFormat

OPERATIONS: Final = from_arrow_schema(OPERATIONS_SCHEMA, prefer_timestamp_ntz=True)
COPYBOOK: Final = "01 R. 05 A PIC 9(2). 05 B PIC X(3)."
Made = dict[str, str]


def batch(source: SparkFormat) -> list[Any]:
    """Read a batch to its end, as a planner and its tasks do."""
    reader: Any = source.reader(source.schema())
    parts = reader.partitions()
    return [
        one for part in parts for one in cloudpickle.loads(cloudpickle.dumps(reader)).read(part)
    ]


def stream(source: SparkFormat) -> list[Any]:
    """Read a stream up to what is there."""
    reader: Any = source.streamReader(source.schema())
    cloudpickle.loads(cloudpickle.dumps(reader))
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    parts = reader.partitions(start, end)
    return [one for part in parts for one in reader.read(part)]


def written(source: SparkFormat) -> list[Any]:
    source.writer(_schema(source), overwrite=False)
    return [1]


def streamed(source: SparkFormat) -> list[Any]:
    source.streamWriter(_schema(source), overwrite=False)
    return [1]


def _schema(source: SparkFormat) -> StructType:
    if isinstance(source, copybook.CopybookSource):
        return StructType().add("A", IntegerType()).add("B", StringType())
    return OPERATIONS


def _trail(folder: Path) -> Made:
    return {"path": str(write_trail(folder / "ot", [[[Op("I", 1)], [Op("I", 2)]]]))}


def _trail_as_messages(folder: Path) -> Made:
    return {**_trail(folder), "messages": "json"}


def _new_trail(folder: Path) -> Made:
    prefix = write_trail(folder / "ot", [[[Op("I", 1)]]])
    return {"path": str(folder / "new"), "definitions": f"{prefix}.def"}


def _messages(folder: Path) -> Made:
    place = Place(folder)
    place.write(row(1), row(2))
    return {"path": str(place.messages), "properties": str(folder / "p.properties")}


def _records(folder: Path) -> Made:
    (folder / "data").mkdir()
    (folder / "data/one").write_bytes("01abc02def".encode("cp037"))
    return {"path": str(folder / "data"), "copybookText": COPYBOOK}


def _new_records(folder: Path) -> Made:
    return {"path": str(folder / "new"), "copybookText": COPYBOOK}


def _journal(folder: Path) -> Made:
    Place(folder)
    return {
        "path": str(folder / "j"),
        "receive": "false",
        "properties": str(folder / "p.properties"),
    }


def _tables(folder: Path) -> Made:
    return {"trail": _trail(folder)["path"], "to": f"duckdb:{folder}/x.duckdb"}


class Way(NamedTuple):
    """A format as it is used in one way: its class, its options, options that are good, and what takes it as far as it goes."""

    source: type[SparkFormat]
    options: Options
    good: Callable[[Path], Made]
    use: Callable[[SparkFormat], list[Any]]


AS_MESSAGES: Final = message_options("json")
WAYS: Final[Mapping[str, Way]] = {
    "trail, read": Way(PublishingTrailSource, trail.READING, _trail, batch),
    "trail, streamed": Way(PublishingTrailSource, trail.READING, _trail, stream),
    "trail as messages, read": Way(PublishingTrailSource, AS_MESSAGES, _trail_as_messages, batch),
    "trail as messages, streamed": Way(
        PublishingTrailSource, AS_MESSAGES, _trail_as_messages, stream
    ),
    "trail, written": Way(PublishingTrailSource, trail_sink.WRITING, _new_trail, written),
    "trail, stream written": Way(PublishingTrailSource, trail_sink.STREAMING, _new_trail, streamed),
    "messages, read": Way(
        message_files.MessageCaptureSource, message_files.OPTIONS, _messages, batch
    ),
    "messages, streamed": Way(
        message_files.MessageCaptureSource, message_files.OPTIONS, _messages, stream
    ),
    "records, read": Way(copybook.CopybookSource, copybook.ON_SPARK, _records, batch),
    "records, written": Way(copybook.CopybookSource, copybook_sink.ON_SPARK, _new_records, written),
    "journal, streamed": Way(jms.JmsSource, jms.OPTIONS, _journal, stream),
    "tables, written": Way(apply_sink.ApplySink, apply_sink.WRITING, _tables, written),
    "tables, stream written": Way(apply_sink.ApplySink, apply_sink.WRITING, _tables, streamed),
}
# Of these an empty text is a value.
MAY_BE_EMPTY: Final = {"nulls"}
# Any text is a value of these as far as planning goes: a name that is looked up in what is read, or text that is written.
OPEN: Final = {
    "base", "copybook_text", "url", "user", "password", "from_csn", "to_csn", "group", "discards", "after_csn",
    "overlay_until", "split_bytes", "topic",
}  # fmt: skip
UNKNOWN: Final = "no/such thing*"  # a line may show it in place of the option's name


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    return WAYS[request.param]


class Notices(logging.Handler):
    """Collects what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def notices() -> Iterator[Notices]:
    handler = Notices()
    log = logging.getLogger("trailgate")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


def outcome(way: Way, options: Mapping[str, str], notices: Notices) -> str:
    """Return the line that a user gets: an error or a notice; empty if there is neither."""
    notices.lines.clear()
    try:
        way.use(way.source(dict(options)))
    except TrailgateError as error:
        return str(error)
    return "; ".join(notices.lines)


def odd_values(option: Option) -> Iterator[str]:
    """Yield values that the option cannot have."""
    if option.name not in MAY_BE_EMPTY and option.default != "":
        yield ""
    if option.kind in (NAMES, PATHS):
        yield " , "
    if option.kind is COUNT:
        yield from ("0", "-1", "1.5", "many")
    elif option.kind is FLAG:
        yield from ("yes", "1")
    elif option.name not in OPEN:
        yield UNKNOWN


def test_every_registered_format_is_tried() -> None:
    registered = {name for _, name in (*FORMATS, *STREAMED)}

    assert {way.source.__name__ for way in WAYS.values()} == registered


def test_good_options_have_no_notice(way: Way, tmp_path: Path, notices: Notices) -> None:
    assert outcome(way, way.good(tmp_path), notices) == ""


def test_an_odd_value_of_any_option_is_an_error(way: Way, tmp_path: Path, notices: Notices) -> None:
    good = way.good(tmp_path)
    unnamed = []
    for option in way.options:
        others = {name: value for name, value in good.items() if name != option.spelling}
        if option.name == "copybook":
            del others["copybookText"]
        for value in odd_values(option):
            said = outcome(way, {**others, option.spelling: value}, notices)
            named = (option.spelling, UNKNOWN) if value == UNKNOWN else (option.spelling,)
            if not any(name.casefold() in said.casefold() for name in named):
                unnamed.append(f"{option.spelling}={value!r}: {said}")
    assert not unnamed, "\n".join(unnamed)


def test_an_option_of_another_format_is_an_error(
    way: Way, tmp_path: Path, notices: Notices
) -> None:
    good = way.good(tmp_path)
    others = {row.spelling for other in WAYS.values() for row in other.options}
    # The option `messages` chooses between two ways of reading a trail.
    misplaced = [
        name
        for name in sorted(others)
        if not way.options.knows(name)
        and not (name == MESSAGES.name and way.options is trail.READING)
    ]

    assert misplaced
    for name in misplaced:
        assert "has no option" in outcome(way, {**good, name: "1"}, notices), name


BATCHES: Final = [name for name, way in WAYS.items() if way.use is batch]


@pytest.mark.parametrize("name", BATCHES)
def test_options_of_streams_are_refused_in_a_batch(
    name: str, tmp_path: Path, notices: Notices
) -> None:
    way = WAYS[name]
    given = {"maxFilesPerTrigger": "1", "maxBytesPerTrigger": "1", "startingPosition": "latest"}
    good = way.good(tmp_path)
    for option, value in given.items():
        said = outcome(way, {**good, option: value}, notices)
        assert "applies only to streams, not to a batch" in said or "has no option" in said, option


# Values that are good alone: where they are, and what the line says.
ODD: Final = [
    ("trail, read", {"tables": "NO.*"}, r"no table of the trail's definitions fits; there are MY.NOTES, MY.ORDERS"),
    ("trail, read", {"tables": "MY.ORDERS,MY.ORDER"}, "MY.ORDER: no table"),
    ("trail, streamed", {"tables": "NO.*"}, "no table of the trail's definitions fits"),
    ("trail, read", {"table": "MY.NONE"}, "MY.NONE"),
    ("trail, read", {"fromPosition": "0:700", "toPosition": "0:600"}, "the range is empty: the position 0"),
    ("trail, read", {"after": "1:700", "toPosition": "0:700"}, "the range is empty: the position 0"),
    ("trail, streamed", {"fromPosition": "0:700", "toPosition": "0:600"}, "the range is empty: the position 0"),
    ("trail, read", {"fromPosition": "9:0"}, "position 9:0 is after the trail's end, which is 0:"),
    ("trail, read", {"after": "0:99999"}, "position 0:99999 is after the trail's end, which is 0:"),
    ("trail, streamed", {"fromPosition": "9:0"}, "position 9:0 is after the trail's end, which is 0:"),
    ("trail, read", {"fromCsn": "9", "toCsn": "10"}, ""),
    ("trail, read", {"fromCsn": "10", "toCsn": "9"}, "the CSN 10 is above 9"),
    ("trail, read", {"fromCsn": "abc"}, "first CSN is 'abc', but the CSNs of the trail are numbers"),
    ("trail, streamed", {"toCsn": "12.5"}, "last CSN is '12.5', but the CSNs of the trail are numbers"),
    ("trail, streamed", {"openTransactions": "show"}, "a stream returns complete transactions only"),
    ("messages, read", {"ignoreUnsupported": "true"}, "ignore_unsupported needs"),
    ("messages, read", {"table": "NO.TABLE"}, "NO.TABLE"),
    ("messages, streamed", {"columns": "x"}, "there is no column x"),
    ("records, read", {"columns": "C"}, "C"),
    ("journal, streamed", {"user": "me"}, "the option user applies only to a broker"),
    ("journal, streamed", {"password": "me"}, "the option password applies only to a broker"),
    ("journal, streamed", {"idleSeconds": "9"}, "the option idleSeconds applies only to a broker"),
    ("journal, streamed", {"url": "stomp://h/q"}, "receive is false, and a url is given"),
    ("journal, streamed", {"ignoreUnsupported": "true"}, "ignore_unsupported needs"),
    ("tables, written", {"skipApplied": "true"}, "the option skipApplied applies only to streams"),
    ("tables, written", {"ignoreUnsupported": "true"}, "ignore_unsupported needs a Replicat parameter file"),
    ("tables, written", {"tables": "NO.*"}, "no table of the trail's definitions fits"),
    ("tables, written", {"column": "NO.T.X=text"}, "--column NO.T: no table of the group fits"),
    ("tables, written", {"column": "MY.NOTES.XYZ=text"}, "MY.NOTES has no such column"),
    ("tables, stream written", {"column": "MY.NOTES.XYZ=text"}, "MY.NOTES has no such column"),
    ("tables, written", {"sizes": "true"}, "--sizes applies only to PostgreSQL"),
    ("tables, written", {"discards": "d.jsonl"}, "--discards has no effect with --on-error stop"),
    ("tables, written", {"path": "lake"}, "has no path"),
    ("tables, stream written", {"path": "lake"}, "has no path"),
    ("trail, stream written", {"maxAgeSeconds": "0"}, "maxAgeSeconds must be a number above 0"),
    ("trail, written", {"maxAgeSeconds": "9"}, "has no option maxAgeSeconds"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "odd", "line"), ODD, ids=lambda one: str(one)[:40])
def test_what_contradicts_or_fits_nothing_has_a_line(
    name: str, odd: Made, line: str, tmp_path: Path, notices: Notices
) -> None:
    said = outcome(WAYS[name], {**WAYS[name].good(tmp_path), **odd}, notices)

    assert line in said
    assert bool(line) == bool(said)


@pytest.mark.parametrize("name", ["trail, streamed", "messages, streamed", "journal, streamed"])
@pytest.mark.parametrize("pattern", ["o*", "[ab]x", "?t"])
def test_a_stream_refuses_a_pattern_for_which_it_would_wait(
    name: str, pattern: str, tmp_path: Path, notices: Notices
) -> None:
    way = WAYS[name]
    given = {**way.good(tmp_path), "path": str(tmp_path / pattern)}

    said = outcome(way, given, notices)

    assert ("pattern" in said) or ("needs a folder" in said)


def test_an_unsupported_format_feature_is_a_one_line_error(tmp_path: Path) -> None:
    records = copybook.CopybookSource(_records(tmp_path))
    with pytest.raises(OptionError, match="the format copybook cannot be read as a stream"):
        stream(records)
    with pytest.raises(OptionError, match=r"the format jms cannot be read as a batch.*readStream"):
        jms.JmsSource({}).reader(StructType())
    with pytest.raises(
        OptionError, match="the format message_capture cannot be written as a batch"
    ):
        message_files.MessageCaptureSource({}).writer(StructType(), overwrite=False)
    with pytest.raises(OptionError, match="the format trailgate_apply cannot be read"):
        apply_sink.ApplySink({}).schema()
    with pytest.raises(OptionError, match="the format copybook cannot be written as a stream"):
        records.streamWriter(StructType(), overwrite=False)
