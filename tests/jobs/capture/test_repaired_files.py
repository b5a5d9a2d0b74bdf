"""Repaired messages of a trail that is captured from files are of whole transactions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from capture_place import QUARANTINE, Place
from jobs.receive.test_receive_laws import bodies, names
from trailgate.errors import TransactionError
from trailgate.jobs.capture.plan import CaptureOptions

GOOD: Final = "I,MY.ORDERS,2026-01-01,{},1,{}"
SENT: Final = bodies([["W"], ["?"], ["W"], ["B"], ["?"], ["E"]])
REPAIRED: Final = {0: GOOD.format("W", "r1"), 2: GOOD.format("M", "r2")}
ADDED: Final = [("r1", "W"), ("2", "B"), ("r2", "M"), ("3", "E")]
MISSING: Final = r"a message of its transaction is missing: position 0*{}0{{10}}, which is line {} of .*ot.quarantine.jsonl \(.*fix{}.jsonl, line 1\)"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path, spanning=True)
    made.write(*SENT)
    made.run("ot", QUARANTINE)
    return made


def rows_of(place: Place) -> list[dict[str, Any]]:
    lines = (place.folder / "ot.quarantine.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == 4
    return [row | ({"body": REPAIRED[at]} if at in REPAIRED else {}) for at, row in enumerate(rows)]


def repair(
    place: Place,
    rows: Sequence[Mapping[str, Any]],
    options: CaptureOptions | None = None,
    number: int = 1,
) -> int:
    path = place.folder / f"fix{number}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place.run("ot", options, path).operations


# The lines that are passed, and the number of the line that is missed, or None. Line 1 is a
# transaction, and lines 2 to 4 are another one.
PARTS: Final = [
    ([1], None),
    ([2, 3, 4], None),
    ([1, 2, 3, 4], None),
    ([2, 4], 3),
    ([2, 3], 4),
    ([3, 4], 2),
]


@pytest.mark.parametrize("options", [None, QUARANTINE], ids=["stop", "quarantine"])
@pytest.mark.parametrize(("passed", "missing"), PARTS)
def test_a_part_of_a_transaction_is_refused(
    place: Place, passed: list[int], missing: int | None, options: CaptureOptions | None
) -> None:
    before, rows = names(place, "ot"), rows_of(place)
    own = [rows[number - 1] for number in passed]
    if missing is None:
        assert repair(place, own, options) == len(own)
    else:
        files = {2: 3, 3: 4, 4: 5}  # the number of the file that the message was in
        with pytest.raises(TransactionError, match=MISSING.format(files[missing], missing, 1)):
            repair(place, own, options)
        assert names(place, "ot") == before
        assert repair(place, rows, options, 2) == len(rows)
        assert names(place, "ot") == [*before, *ADDED]


def test_a_dry_run_refuses_a_part_of_a_transaction_too(place: Place) -> None:
    rows = rows_of(place)
    with pytest.raises(TransactionError, match="a message of its transaction is missing"):
        repair(place, [rows[1], rows[3]], replace(QUARANTINE, dry_run=True))


def test_the_messages_of_a_transaction_may_be_in_several_files(place: Place) -> None:
    before, rows = names(place, "ot"), rows_of(place)
    folder = place.folder / "fixes"
    folder.mkdir()
    for number, row in enumerate(rows):
        (folder / f"{number}.jsonl").write_text(json.dumps(row))
    place.run("ot", None, folder)

    assert names(place, "ot") == [*before, *ADDED]


def test_a_part_that_is_still_bad_is_quarantined_with_its_transaction(place: Place) -> None:
    before, rows = names(place, "ot"), rows_of(place)
    rows[2]["body"] = "bad"

    assert repair(place, rows[1:], QUARANTINE) == 0
    assert names(place, "ot") == before


ORDINARY: Final[Mapping[str, Callable[[Place], object]]] = {
    "of another quarantine": lambda place: (place.folder / "ot.quarantine.jsonl").write_text(
        (place.folder / "ot.quarantine.jsonl").read_text().replace("messages/", "other/")
    ),
    "whose quarantine was deleted": lambda place: (place.folder / "ot.quarantine.jsonl").unlink(),
}


@pytest.mark.parametrize("case", [*ORDINARY])
def test_messages_that_are_not_of_the_quarantine_are_like_any_others(
    place: Place, case: str
) -> None:
    before, rows = names(place, "ot"), rows_of(place)
    ORDINARY[case](place)

    assert repair(place, [rows[1], rows[3]]) == 2
    assert names(place, "ot") == [*before, ("2", "B"), ("3", "E")]


def test_a_message_at_the_place_of_an_earlier_one_is_another(tmp_path: Path) -> None:
    """A file is replaced every hour, and in both hours its first message is quarantined."""
    place, file = Place(tmp_path, spanning=True), tmp_path / "hour.jsonl"
    for sent in (SENT[3:], ["worse", GOOD.format("E", "4")]):
        file.write_text("".join(json.dumps({"body": body}) + "\n" for body in sent))
        place.run("ot", QUARANTINE, file)
    lines = (tmp_path / "ot.quarantine.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["position"] for row in rows].index(rows[3]["position"]) == 0

    assert repair(place, [rows[3] | {"body": GOOD.format("B", "r3")}, rows[4]]) == 2
