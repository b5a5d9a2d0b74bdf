"""Promises about reading in reverse: what follows damage is shown, and what precedes it can be reached."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdump.sessions import answers, offsets, opened
from logdump.trails import TRAILS
from trailgate.logdump.results import FailureResult
from trailgate.logdump.session import LogdumpSession

WHOLE = TRAILS["orders"]()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reverse")


def starts(folder: Path) -> list[int]:
    return offsets(answers(opened(folder, WHOLE), "N 1000"))


def back(session: LogdumpSession) -> tuple[list[int], bool]:
    """Return the records read in reverse from here, and whether damage ended that."""
    results = answers(session, "N 1000")
    return offsets(results), isinstance(results[-1], FailureResult)


@given(st.data())
def test_records_after_damage_are_shown_and_those_before_it_are_found(
    folder: Path, data: st.DataObject
) -> None:
    records = starts(folder)
    ends = [*records[1:], len(WHOLE)]
    at = data.draw(st.integers(1, len(records) - 2))
    begin = data.draw(st.integers(records[at], ends[at] - 1))
    raw = bytearray(WHOLE)
    size = data.draw(st.integers(1, ends[at] - begin))
    raw[begin : begin + size] = bytes(raw[begin + i] ^ 0xFF for i in range(size))
    session = opened(folder, bytes(raw))
    answers(session, "POS EOF", "POS REV")

    shown, damaged = back(session)
    assert shown[: len(records) - at - 1] == records[:at:-1]
    if damaged:
        assert offsets(answers(session, "SFH PREV")) == [records[at - 1]]
        assert back(session) == (records[: at - 1][::-1], False)


def test_the_error_names_the_way_on(folder: Path) -> None:
    records = starts(folder)
    raw = bytearray(WHOLE)
    raw[records[2] + 4 : records[2] + 8] = bytes(4)  # the record's header: its framing is whole
    session = opened(folder, bytes(raw))
    *_, failure = answers(session, f"POS {records[4]}", "POS REV", "N 9")

    assert isinstance(failure, FailureResult)
    assert "SCANFORHEADER PREV finds the good record before it" in str(failure.error)
    assert session.position == records[3]
