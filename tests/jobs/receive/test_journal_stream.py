"""A journal in batches: whatever they are asked to be, each begins and ends between two transactions, and together they are all."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_place import DEFINITIONS, Place
from held_captures import json_capture
from journal_messages import letters_of, line, stored, storing
from trailgate.errors import StorageError, TrailgateError
from trailgate.live.files.journal_reader import JournalIndex
from trailgate.live.files.journal_writer import Journal, JournalOptions
from trailgate.live.jobs.journal_stream import TransactionBoundaries, operations_of
from trailgate.model.operations_table import to_operations

SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=12)


def names(place: Place, messages: Iterator[object] | object) -> list[tuple[str, str]]:
    found = []
    for batch in operations_of(messages, place.capture):  # type: ignore[arg-type]
        rows = to_operations(batch)
        for after, letter in zip(
            rows["after"].to_pylist(), rows["tx_ind"].to_pylist(), strict=True
        ):
            found.append((dict(after)["NAME"], letter))
    return found


@given(SIZES, st.lists(st.integers(1, 5), max_size=30), st.lists(st.integers(1, 9), max_size=40))
def test_batches_of_any_size_are_whole_transactions_and_together_all(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    windows: list[int],
    asked: list[int],
) -> None:
    place = Place(tmp_path_factory.mktemp("j"), spanning=True)
    letters = letters_of(sizes)
    lines = [line(number, letter) for number, letter in enumerate(letters)]
    folder = place.folder / "j"
    index = JournalIndex(folder)
    boundaries = TransactionBoundaries(index, place.capture)
    found: list[tuple[str, str]] = []
    begin = 0
    steps = iter(asked)
    with Journal(folder, JournalOptions(segment_bytes=2000)) as journal:
        for _ in storing(journal, lines, windows):
            most = next(steps, 1000)
            end = boundaries.last_within(begin, most, index.extent().end)
            assert end == begin or letters[end - 1] in "EW"
            found += names(place, index.range(begin, end))
            begin = end
            journal.release(begin)

        if letters[-1] in "EW":
            end = boundaries.last(begin, index.extent().end)
            assert end == len(lines)
            found += names(place, index.range(begin, end))

    assert found == [(str(number), letter) for number, letter in enumerate(letters)]


@given(SIZES, st.integers(0, 40))
def test_the_last_border_is_the_last_one_wherever_it_is_looked_for(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], end: int
) -> None:
    place = Place(tmp_path_factory.mktemp("j"), spanning=True)
    letters = letters_of([1] * 30 + sizes)
    end = min(30 + end, len(letters))
    folder = place.folder / "j"
    with Journal(folder) as journal:
        stored(journal, 0, [line(number, letter) for number, letter in enumerate(letters)])

    found = TransactionBoundaries(JournalIndex(folder), place.capture).last(0, end)

    assert found == max(at + 1 for at in range(end) if letters[at] in "EW")


def test_a_transaction_longer_than_a_batch_is_one_batch(tmp_path: Path) -> None:
    place = Place(tmp_path, spanning=True)
    letters = letters_of([1, 900, 1])
    with Journal(tmp_path / "j") as journal:
        stored(journal, 0, [line(number, letter) for number, letter in enumerate(letters)])
    index = JournalIndex(tmp_path / "j")
    boundaries = TransactionBoundaries(index, place.capture)

    assert boundaries.last_within(0, 10, 902) == 1
    assert 901 <= boundaries.last_within(1, 10, 902) <= 902
    assert boundaries.last_within(1, 10, 800) == 1


BY_ID = """\
parser.type=json
json.sourcedefs=shop.def
json.txid=xid
json.timestamp.format=YYYY-MM-DD
"""


@given(st.lists(st.integers(1, 5), min_size=2, max_size=9), st.integers(1, 6))
def test_transactions_known_by_their_ids_end_where_the_next_begins(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], most: int
) -> None:
    folder = tmp_path_factory.mktemp("j")
    capture = json_capture(BY_ID, DEFINITIONS)
    ids = [number for number, size in enumerate(sizes) for _ in range(size)]
    bodies = [
        f'{{"table":"MY.ORDERS","op_type":"I","op_ts":"2026-01-01","pos":"{at:04}","xid":"x{one}","after":{{"ID":1,"NAME":"{at}"}}}}'
        for at, one in enumerate(ids)
    ]
    found: list[str] = []
    begin = 0
    index = JournalIndex(folder / "j")
    boundaries = TransactionBoundaries(index, capture)
    with Journal(folder / "j") as journal:
        for at in range(0, len(bodies), 3):
            stored(journal, at, bodies[at : at + 3])
            end = boundaries.last_within(begin, most, index.extent().end)
            for batch in operations_of(index.range(begin, end), capture):
                rows = to_operations(batch)
                found += rows["tx_ind"].to_pylist()
            begin = end

    assert "".join(found) == "".join(letters_of(sizes))[:begin]
    assert begin in {sum(sizes[:count]) for count in range(len(sizes))}


def test_a_bad_message_is_in_a_batch_and_an_error_that_names_it(tmp_path: Path) -> None:
    place = Place(tmp_path, spanning=True)
    with Journal(tmp_path / "j") as journal:
        stored(journal, 0, [line(0, "W"), line(1, "B"), "bad"])
    index = JournalIndex(tmp_path / "j")

    end = TransactionBoundaries(index, place.capture).last(0, 3)

    assert end == 3
    with pytest.raises(TrailgateError, match=r"j, message [12]"):
        names(place, index.range(0, end))


def test_generated_ids_are_those_of_the_journal_however_it_is_cut(tmp_path: Path) -> None:
    place = Place(tmp_path, spanning=True)
    with Journal(tmp_path / "j") as journal:
        stored(journal, 0, [line(number, "W") for number in range(10)])
    index = JournalIndex(tmp_path / "j")

    def ids(*cuts: int) -> list[str]:
        found: list[str] = []
        for begin, end in pairwise(cuts):
            for batch in operations_of(index.range(begin, end), place.capture):
                found += to_operations(batch)["seq_id"].to_pylist()
        return found

    index.extent()
    assert ids(0, 3, 4, 10) == ids(0, 10) == sorted(set(ids(0, 10)))


def test_removed_and_missing_files_are_errors(tmp_path: Path) -> None:
    index = JournalIndex(tmp_path / "j")
    with Journal(tmp_path / "j", JournalOptions(segment_bytes=1)) as journal:
        for number in range(4):
            stored(journal, number, [line(number, "W")])
        journal.release(2)

        with pytest.raises(StorageError, match="messages 1 to 1 were deleted"):
            index.range(1, 4)
        with pytest.raises(StorageError, match="ends before message 4"):
            index.range(2, 5)
        assert index.extent() == (2, 4)
        journal.release(4)
        assert index.extent() == (3, 4)
