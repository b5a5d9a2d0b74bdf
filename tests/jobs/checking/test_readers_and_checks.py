"""Whole means whole: what a reader refuses, a check finds."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flipped_trails import KINDS, flipped_trails
from laws import examples, sampled
from trail.building import cell, record, text
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.errors import TrailgateError
from trailgate.jobs.salvage import salvage
from trailgate.jobs.trail_check import CheckReport, check_trail
from trailgate.model.tables import Column, Definitions, Table
from trailgate.storage.reading.trails import read_trail

OF_VALUES = ("not UTF-8", "not a date time")  # what a check without values does not look for
FILLING = b"dwme"  # the letters of large values: flipping these says little


@pytest.fixture(scope="module")
def trails(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, bytes]]:
    found = flipped_trails(tmp_path_factory.mktemp("flipped"))
    return {name: (path, path.read_bytes()) for name, path in found.items()}


@cache
def telling_places(good: bytes) -> npt.NDArray[np.int64]:
    """Return the bytes that are not filling."""
    return np.flatnonzero(~np.isin(np.frombuffer(good, np.uint8), list(FILLING)))


def refusal(path: Path, table: str | None = None) -> str:
    """Return why a reader refuses a trail; empty where it does not."""
    try:
        for _ in read_trail(path, threads=1, table=table):
            pass
    except TrailgateError as error:
        return str(error)
    return ""


def reported(report: CheckReport) -> str:
    return "\n".join(str(one) for one in report.findings)


def test_the_trails_are_whole_and_read(trails: dict[str, tuple[Path, bytes]]) -> None:
    for path, _ in trails.values():
        assert refusal(path) == ""
        for values in (False, True):
            report = check_trail(str(path), values=values)
            assert report.whole, reported(report)


@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_what_a_reader_refuses_a_check_finds(
    trails: dict[str, tuple[Path, bytes]], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(trails)))
    path, good = trails[name]
    places = telling_places(good)
    at = int(places[data.draw(st.integers(0, len(places) - 1))])
    flip = data.draw(st.integers(1, 255) | st.sampled_from([1 << bit for bit in range(8)]))
    path.write_bytes(good[:at] + bytes((good[at] ^ flip,)) + good[at + 1 :])
    try:
        typed = refusal(path, KINDS.name) if name.startswith("level") else ""
        if typed:
            assert not check_trail(str(path), values=True).whole, typed
        problem = refusal(path)
        if not problem:
            return

        assert not check_trail(str(path), values=True).whole, problem
        if not any(text in problem for text in OF_VALUES):
            assert not check_trail(str(path)).whole, problem
    finally:
        path.write_bytes(good)


def test_a_date_that_the_typed_shape_refuses_is_found_with_values(
    trails: dict[str, tuple[Path, bytes]],
) -> None:
    path, good = trails["level 3"]
    for wrong in (b"2024-13-02", b"2024-01-3x", b"2024-01-0\0"):
        path.write_bytes(good.replace(b"2024-01-02", wrong))
        refused, report = refusal(path, KINDS.name), check_trail(str(path), values=True)
        path.write_bytes(good)

        assert "(position 0:" in refused
        assert "table S.KINDS, field AT" in refused
        assert [one.kind for one in report.findings] == ["reading"]
        assert "(field AT)" in reported(report)


def test_a_changed_byte_of_a_header_gives_rows_or_our_own_error_and_findings(
    trails: dict[str, tuple[Path, bytes]], tmp_path: Path
) -> None:
    path, good = trails["level 3"]
    length = int.from_bytes(good[2:4], "big")
    # The second byte of each token: what states that a field has no value yet.
    tokens = [at + 1 for at in range(8, length - 4) if good[at] in range(0x30, 0x40)]
    for at in sampled(sorted({*tokens, *range(length)}), 120, "headers"):
        path.write_bytes(good[:at] + b"\xff" + good[at + 1 :])
        try:
            refused, whole = refusal(path), check_trail(str(path)).whole
            with suppress(TrailgateError):
                salvage(str(path)[:-9], str(tmp_path / f"at{at}x"))
        finally:
            path.write_bytes(good)

        assert not (refused and whole), (at, refused)


DATED = Table("S.D", (Column("ID", 64, 10, key=True), Column("AT", 192, 19)))


def test_values_are_whole_where_the_typed_shape_takes_them(tmp_path: Path) -> None:
    value = b"2024-01-02:03:04:05"
    head = record(5, cell(0, text("k")) + cell(1, b"\0\0" + value), name=DATED.name)
    (tmp_path / "ot.def").write_bytes(write_sourcedefs(Definitions((DATED,))))
    path = tmp_path / "ot000000000"
    first = head.index(value)
    refused = 0
    for at in range(first, first + len(value)):
        for new in b"\0 19:\xff":
            path.write_bytes(head[:at] + bytes((new,)) + head[at + 1 :])
            try:
                read_trail(tmp_path / "ot", table=DATED.name).read_all()
                taken = True
            except TrailgateError:
                taken = False
                refused += 1

            assert check_trail(str(tmp_path / "ot"), values=True).whole == taken, (at, new)
    assert refused > len(value)


def test_a_value_that_is_not_text_is_found_with_values_alone(
    trails: dict[str, tuple[Path, bytes]],
) -> None:
    path, good = trails["level 3"]
    path.write_bytes(good.replace("née".encode(), b"n\xff\xfee"))

    report = check_trail(str(path), values=True)
    without = check_trail(str(path))
    path.write_bytes(good)

    assert without.whole
    assert [one.kind for one in report.findings] == ["reading"]
    assert "not UTF-8 (field NAME)" in reported(report)
    assert report.findings[0].raw[:2] == b"\x47\x01"


def test_where_all_records_are_refused_few_are_sought_one_by_one(tmp_path: Path) -> None:
    path = flipped_trails(tmp_path)["level 3"]
    good = path.read_bytes()
    head = int.from_bytes(good[2:4], "big")
    first = head + int.from_bytes(good[head + 2 : head + 4], "big")
    path.write_bytes(good[:head] + 300 * good[head:first])
    wider = tuple(
        replace(one, external_length=5) if one.name == "CODE" else one for one in KINDS.columns
    )
    definitions = write_sourcedefs(Definitions((replace(KINDS, columns=wider),)))
    Path(f"{str(path)[:-9]}.def").write_bytes(definitions)

    report = check_trail(str(path))

    found = [one for one in report.findings if one.kind == "reading"]
    assert len(found) + found[-1].more == 300
    assert found[0].detail == (
        "Insert S.KINDS: a value of 5 bytes after 00 00 or ff ff was expected (field CODE)"
    )
