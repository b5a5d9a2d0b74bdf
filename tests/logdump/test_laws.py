"""What holds for any command, any bytes and any way of reading."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from logdump.sessions import answers, offsets, opened
from logdump.trails import TRAILS, order_records
from trailgate.logdump import open_trail
from trailgate.logdump.conversation import COMMANDS
from trailgate.logdump.filter_options import OPTIONS_BY_NAME
from trailgate.logdump.record_chunks import number_transactions
from trailgate.logdump.result_output import json_values, text_lines
from trailgate.logdump.results import CountResult, FailureResult, NoteResult
from trailgate.trail.format.file_header import FileHeader, encode_header
from trailgate.trail.records.record import TrailRecord, encode_record

# Neither a slash nor a point: no path leads out of the folder.
LETTERS = st.text("abcxyzABZ0123456789 \"',;:=<>!*?[]-", max_size=12)
WRITING = {"LOG", "SAVE", "WRITELOG"}
KEYWORDS = sorted(
    {word for row in COMMANDS.values() for word in row.keywords} | {"1", "5", "-1", "0x10"}
)
TYPED = st.builds(
    lambda name, words: " ".join((name, *words)),
    st.sampled_from(sorted(name for name in COMMANDS if COMMANDS[name].names[0] not in WRITING)),
    st.lists(st.sampled_from(KEYWORDS) | LETTERS, max_size=4),
)
FILTERS = st.builds(
    lambda side, name, rest: f"FILTER {side} {name} {rest}",
    st.sampled_from(["INCLUDE", "EXCLUDE", ""]),
    st.sampled_from(sorted(OPTIONS_BY_NAME)),
    LETTERS | st.sampled_from(["1", "> 3", "Insert", "MY.*", "L = 100", "2026-01-01", "0000 0:4"]),
)
LINES = st.lists(TYPED | FILTERS | LETTERS, max_size=6)


@st.composite
def hurt(draw: st.DrawFn) -> bytes:
    """Return a trail with some bytes changed, inserted or deleted."""
    raw = bytearray(TRAILS[draw(st.sampled_from(sorted(TRAILS)))]())
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, max(0, len(raw) - 1)))
        raw[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(raw)


@settings(max_examples=examples(150))
@given(raw=hurt() | st.binary(max_size=200), lines=LINES)
def test_any_command_over_any_bytes_gives_results(raw: bytes, lines: list[str]) -> None:
    with TemporaryDirectory() as folder:
        session = opened(Path(folder), raw)
        show = ["GHDR ON", "DETAIL DATA", "GGSTOKEN DETAIL", "USERTOKEN ON", "HEADERTOKEN DETAIL"]
        after = [
            "OPEN ot000000000",
            "N 9",
            "COUNT DETAIL",
            "SFH",
            "POS EOF",
            "POS REV",
            "N 9",
            "SFH",
        ]
        for result in answers(session, *show, *lines, *after):
            assert all(line.isprintable() for line in text_lines(result))
            json.dumps(json_values(result))


@given(raw=hurt())
def test_every_good_record_after_damage_is_found(raw: bytes) -> None:
    with TemporaryDirectory() as folder:
        session = opened(Path(folder), raw)
        last = -1
        for _ in range(40):
            results = answers(session, "SFH")
            assert not any(isinstance(one, FailureResult) for one in results)
            found = offsets(results)
            if not found:
                break
            assert found[0] > last
            last = found[0]
        else:
            pytest.fail("the search did not end")


def naive_numbers(records: list[tuple[int, bool]]) -> list[int]:
    """Return the transaction of each record, a record at a time; 0 is the one open before."""
    number, count, is_open, found = 0, 0, True, []
    for indicator, aside in records:
        if indicator in (0, 3) or not is_open:
            count += 1
            own = count
        else:
            own = number
        found.append(own)
        if indicator == 3 and aside:
            continue
        number, is_open = own, indicator in (0, 1)
    return found


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=12))
def test_transactions_are_numbered_as_by_hand(records: list[tuple[int, bool]]) -> None:
    indicator = np.array([one for one, _ in records], np.uint8)
    aside = np.array([flag and one == 3 for one, flag in records])

    numbers = number_transactions(indicator, aside)

    assert numbers.number.tolist() == naive_numbers(records)


def long_trail(records: int) -> bytes:
    """Return a trail of many records, of which each seventh carries tokens."""
    one = [encode_record(record) for record in order_records()]
    big = encode_record(TrailRecord(5, name="MY.BIG", data=bytes(60_000), partition=4, trans_ind=1))
    return encode_header(FileHeader()) + b"".join(
        big if number % 97 == 5 else one[number % len(one)] for number in range(records)
    )


def test_how_reading_is_cut_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = long_trail(3000)
    commands = ("TRANSHIST 5; TRANSRECLIMIT 3", "FILTER CSN <= 201", "COUNT DETAIL", "N 3000")
    whole = answers(opened(tmp_path, raw), *commands)
    backward = ("FILTER CSN <= 201", "POS EOF", "POS REVERSE", "N 3000")
    reversed_whole = offsets(answers(opened(tmp_path, raw), *backward))

    monkeypatch.setattr(open_trail, "CHUNK", open_trail.SMALL)
    cut = answers(opened(tmp_path, raw), "N 1; POS 0", *commands)

    (one,), (other,) = ([r for r in found if isinstance(r, CountResult)] for found in (whole, cut))
    assert one == other
    assert offsets(whole) == offsets(cut)[1:]
    assert reversed_whole == offsets(whole)[::-1]


def test_count_agrees_with_a_count_by_hand(tmp_path: Path) -> None:
    records = order_records() * 3
    raw = encode_header(FileHeader()) + b"".join(map(encode_record, records))

    (counts,) = answers(opened(tmp_path, raw), "COUNT DETAIL")

    assert isinstance(counts, CountResult)
    assert counts.total.records == len(records)
    assert counts.total.data_bytes == sum(len(record.data or b"") for record in records)
    assert counts.total.befores == sum(record.image == ord("B") for record in records)
    assert {tally.name: tally.records for tally in counts.tables} == {
        name: sum(record.name == name for record in records)
        for name in {record.name for record in records}
    }
    begins = [r for r in records if r.trans_ind in (0, 3) and r.io_type != 151]
    assert counts.transactions == len(begins)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    body = long_trail(2000)
    header = len(encode_header(FileHeader()))
    with (tmp_path / "big000000").open("wb") as file:
        file.write(body)
        for _ in range(20):
            file.write(body[header:])
    session = opened(tmp_path, b"")
    answers(session, "OPEN big000000", "FILTER STRING /nothing/")
    assert session.trail.size > 30_000_000
    answers(session, "COUNT DETAIL", "N", "POS 0")  # loads code and compiles loops
    tracemalloc.start()
    try:
        answers(session, "COUNT DETAIL", "N", "POS REVERSE", "N")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 24_000_000


def test_the_end_is_reported_and_is_not_an_error(tmp_path: Path) -> None:
    for name, make in TRAILS.items():
        if name == "damaged":
            continue
        results = answers(opened(tmp_path, make()), "N 100", "N")
        assert isinstance(results[-1], NoteResult)
        assert results[-1].text.startswith("End of the file")
