"""What Spark sends to tasks: each its own part, and what all of them need once."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from capture_place import Place, row
from raw_trail import inserts, write_files
from trailgate.spark.message_files import MessageCaptureSource, MessageStreamReader
from trailgate.spark.trail import TrailSource
from trailgate.storage.reading.message_stream import BEGIN

COUNT = 12  # files
LIMIT = 600  # bytes of a partition, wherever the files are


def options(place: Place, **more: str) -> dict[str, str]:
    return {
        "path": str(place.messages),
        "properties": str(place.folder / "p.properties"),
        "splitBytes": "40",
        **more,
    }


def sent(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


def test_a_partition_of_messages_is_a_range_alone(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(*(row(number) for number in range(COUNT)))
    source = MessageCaptureSource(options(place))
    reader = source.reader(source.schema())

    parts = reader.partitions()
    found = [one for part in parts for one in sent(reader).read(sent(part))]

    assert len(parts) > COUNT // 2
    assert max(len(pickle.dumps(part)) for part in parts) < LIMIT
    assert [seq for batch in found for seq in batch["seq_id"].to_pylist()] == sorted(
        seq for batch in found for seq in batch["seq_id"].to_pylist()
    )
    assert sum(batch.num_rows for batch in found) == COUNT


@pytest.mark.parametrize("split", ["40", "150", "1000000"])
@pytest.mark.parametrize("per", ["file", "line"])
def test_a_streams_partition_has_its_own_files_and_the_numbers_of_all(
    tmp_path: Path, split: str, per: str
) -> None:
    place = Place(tmp_path)
    place.write(*(row(2 * number) + row(2 * number + 1) for number in range(COUNT)))
    asked = options(place, splitBytes=split, messagePer=per)
    source = MessageCaptureSource(asked)
    schema = source.schema()
    reader = source.reader(schema)
    whole = [
        row for part in reader.partitions() for one in reader.read(part) for row in one.to_pylist()
    ]
    tail = source.streamReader(schema)
    assert isinstance(tail, MessageStreamReader)
    tail.prepareForTriggerAvailableNow()
    end = tail.latestOffset(BEGIN.json(), tail.getDefaultReadLimit())

    parts = tail.partitions(BEGIN.json(), end)
    rows = [row for part in parts for one in sent(tail).read(sent(part)) for row in one.to_pylist()]

    assert rows == whole
    assert len(rows) == 2 * COUNT


def test_a_partition_of_a_trail_has_no_definitions(tmp_path: Path) -> None:
    prefix = write_files(tmp_path / "ot", [inserts([n], tx=n) for n in range(1, 9)])
    source = TrailSource({"path": str(prefix), "splitBytes": "100"})
    reader = source.reader(source.schema())

    parts = reader.partitions()
    found = [one for part in parts for one in sent(reader).read(sent(part))]

    assert len(parts) > 1
    assert all(not len(part.value.trail.definitions) for part in parts)
    assert sum(batch.num_rows for batch in found) == 8
    assert {name for batch in found for name in batch["table"].to_pylist()} == {"MY.ORDERS"}
    assert all(dict(row["after"])["ID"] for batch in found for row in batch.to_pylist())
