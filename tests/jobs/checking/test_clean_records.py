"""A check that counts clean records in one pass reports the same as one that inspects every record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from damaged_trails import change, metadata, transaction, update, write_files
from flipped_trails import FORMATS, clean_trails, flipped_trails
from laws import examples
from sample_trail import DEFINITIONS
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.jobs import check_steps as steps_of_checks
from trailgate.jobs.check_steps import CountedChunk, check_steps
from trailgate.jobs.trail_check import CheckReport, check_files, check_trail, files_to_check
from trailgate.model.tables import Column, Definitions, Table
from trailgate.storage.files.trail_files import find_stored_trail
from trailgate.trail.findings import FindingCollector
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.records.record import TrailRecord


def inspected(path: str) -> CheckReport:
    """Check a trail without counting: a caller that watches the steps gets every record."""
    trail, findings = find_stored_trail(path, None), FindingCollector()
    files = files_to_check(trail, findings)
    done = check_files(trail, files, findings, lambda _: None)
    return CheckReport(path, tuple(totals.report() for totals, _ in done), findings.result())


def counted_records(path: Path) -> int:
    """Return the number of records that the check of a trail only counted."""
    trail = find_stored_trail(str(path), None)
    steps = check_steps(trail, files_to_check(trail, FindingCollector()), counts=True)
    return sum(step.counts.records for step in steps if isinstance(step, CountedChunk))


def write(folder: Path, records: list[TrailRecord]) -> Path:
    folder.mkdir(exist_ok=True)
    (path,) = write_files(folder / "ot", [records])
    return path


@pytest.fixture(scope="module")
def trails(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, bytes]]:
    folder = tmp_path_factory.mktemp("flipped")
    found = {
        **flipped_trails(folder),
        **{f"clean, {k}": v for k, v in clean_trails(folder).items()},
    }
    return {name: (path, path.read_bytes()) for name, path in found.items()}


@settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_a_changed_byte_is_reported_as_by_an_inspection(
    trails: dict[str, tuple[Path, bytes]], data: st.DataObject
) -> None:
    path, good = trails[data.draw(st.sampled_from(sorted(trails)))]
    at = data.draw(st.integers(0, len(good) - 1))
    flip = data.draw(st.integers(1, 255) | st.sampled_from([1 << bit for bit in range(8)]))
    path.write_bytes(good[:at] + bytes((good[at] ^ flip,)) + good[at + 1 :])
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                steps_of_checks, "CHUNK", data.draw(st.sampled_from([500, 1000, 1 << 20]))
            )
            assert check_trail(str(path)) == inspected(str(path))
    finally:
        path.write_bytes(good)


@pytest.mark.parametrize("name", FORMATS)
def test_records_of_every_level_are_counted(
    trails: dict[str, tuple[Path, bytes]], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The metadata at the beginning are in a portion of their own."""
    monkeypatch.setattr(steps_of_checks, "CHUNK", 1000)
    path, _ = trails[f"clean, {name}"]
    assert counted_records(path) > 10
    assert check_trail(str(path)) == inspected(str(path))


ORDER = ByteOrder.BIG
AFTER = update(6)[1]
CLEAN = [*transaction(1, 3), *transaction(2, 1), *transaction(3, 2)]


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([*CLEAN, *update(4), *transaction(5, 2)], id="a piece after an update"),
        pytest.param([*CLEAN, change(4, 1)], id="continues nothing"),
        pytest.param([change(4, 1), *CLEAN], id="continues an earlier file"),
        pytest.param([*CLEAN, change(4, 0)], id="open at the end"),
        pytest.param([*CLEAN, change(4, 0), *transaction(5, 2)], id="begins inside"),
        pytest.param([*CLEAN, change(4, 0), metadata(1), change(4, 2)], id="metadata inside"),
        pytest.param([*CLEAN, *transaction(1, 2)], id="a lower CSN"),
        pytest.param(
            [*CLEAN, update(4)[0], change(4, 2)], id="a before image without its after image"
        ),
        pytest.param([*CLEAN, update(4)[0]], id="a before image at the end"),
        pytest.param(
            [*CLEAN, update(4)[0], replace(AFTER, name="MY.NOTES", trans_ind=2)],
            id="of another table",
        ),
        pytest.param([*CLEAN, update(4)[0], replace(AFTER, trans_ind=2)], id="a complete update"),
        pytest.param(
            [*CLEAN, change(4, 3, table="NOT.KNOWN"), *transaction(5, 1)], id="no such table"
        ),
        pytest.param([*CLEAN, replace(change(4, 3), data=b"\0\0\0\1")], id="damaged columns"),
        pytest.param([*CLEAN, replace(change(4, 3), io_time=0)], id="an early time"),
    ],
)
def test_records_are_reported_as_by_an_inspection(
    tmp_path: Path, records: list[TrailRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, records)
    assert check_trail(str(path)) == inspected(str(path))

    monkeypatch.setattr(steps_of_checks, "CHUNK", 400)
    assert check_trail(str(path)) == inspected(str(path))


PARTS = st.sampled_from(
    [
        lambda n: transaction(n, 1),
        lambda n: transaction(n, 3),
        lambda n: [update(n)[0], replace(change(n, 2), io_type=15)],
        lambda n: [update(n)[0], replace(change(n, 1), io_type=15), change(n, 2)],
        update,
        lambda n: [metadata(1 + n % 2)],
        lambda n: [replace(change(n, 3), name=None, table_index=1 + n % 2, partition=0x0C)],
        lambda n: [change(n, n % 4)],
        lambda n: [change(n - 2, 3)],
        lambda n: [replace(change(n, 3), undo=1)],
    ]
)


@settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.lists(PARTS, min_size=1, max_size=12), st.integers(250, 3000))
def test_any_records_in_portions_of_any_size_are_reported_as_by_an_inspection(
    tmp_path: Path, parts: list[Any], size: int
) -> None:
    path = write(tmp_path, [one for number, part in enumerate(parts, 10) for one in part(number)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps_of_checks, "CHUNK", size)
        assert check_trail(str(path)) == inspected(str(path))


def test_clean_records_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path, [*CLEAN, update(4)[0], replace(AFTER, trans_ind=2)])
    assert counted_records(path) == len(CLEAN) + 2
    assert check_trail(str(path)) == inspected(str(path))


def test_clean_records_of_many_tables_are_counted(tmp_path: Path) -> None:
    """A trail may have more tables, and longer names and lists of columns, than there is room for at first."""
    ordinary = DEFINITIONS.table("MY.ORDERS").columns
    more = tuple(Column(f"C{number}", 64, 10) for number in range(20))
    tables = [Table(f"SCHEMA.TABLE_{number}", (*ordinary, *more)) for number in range(300)]
    records = [change(number, 3, table=table.name) for number, table in enumerate(tables)]
    again = [change(999, 3, table=tables[number].name) for number in (0, 299, 150)]
    path = write(tmp_path, [*records, *again])
    (tmp_path / "ot.def").write_bytes(write_sourcedefs(Definitions(tuple(tables))))

    assert counted_records(path) == 303
    assert check_trail(str(path)) == inspected(str(path))


def test_records_of_a_table_in_the_metadata_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table index may get another table in the middle of a file."""
    monkeypatch.setattr(steps_of_checks, "CHUNK", 400)
    one = [replace(change(n, 3), name=None, table_index=1, partition=0x0C) for n in range(20)]
    path = write(tmp_path, [metadata(1), *one, metadata(1), *one])

    assert counted_records(path) > 10
    assert check_trail(str(path)) == inspected(str(path))
