"""Repaired messages of a trail that is captured from files are of whole transactions, and each is captured once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from capture_place import QUARANTINE, Place
from jobs.receive.test_receive_laws import bodies, names
from trailgate.errors import DecodeError, StorageError, TransactionError
from trailgate.jobs.capture.plan import CaptureOptions
from trailgate.storage.files.manifest import read_manifest

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


def test_messages_of_another_quarantine_are_like_any_others(place: Place) -> None:
    before, rows = names(place, "ot"), rows_of(place)
    for row in rows:
        row["source"] = row["source"].replace("messages/", "other/")

    assert repair(place, [rows[1], rows[3]]) == 2
    assert names(place, "ot") == [*before, ("2", "B"), ("3", "E")]


CHANGED: Final[Mapping[str, Callable[[Path], object]]] = {
    "deleted": lambda path: path.unlink(),
    "longer": lambda path: path.write_text("x" + path.read_text()),
    "shorter": lambda path: path.write_text(path.read_text().partition("\n")[0] + "\n"),
}


@pytest.mark.parametrize("case", [*CHANGED])
def test_nothing_is_repaired_while_the_quarantine_is_not_as_it_was_written(
    place: Place, case: str
) -> None:
    """Lines that were captured before would not be recognized, in this run and in later ones."""
    before, rows = names(place, "ot"), rows_of(place)
    path = place.folder / "ot.quarantine.jsonl"
    original = path.read_text()
    CHANGED[case](path)

    with pytest.raises(StorageError, match="that the manifest states") as raised:
        repair(place, rows)
    assert raised.value.hint is not None
    assert "Restore the file: without it" in raised.value.hint
    assert names(place, "ot") == before
    path.write_text(original)
    assert repair(place, rows, number=2) == len(rows)
    with pytest.raises(DecodeError, match="captured or quarantined again before"):
        repair(place, rows, number=3)


def test_lines_of_a_deleted_quarantine_can_be_captured_unchecked(place: Place) -> None:
    before, rows = names(place, "ot"), rows_of(place)
    (place.folder / "ot.quarantine.jsonl").unlink()

    assert repair(place, [rows[1], rows[3]], CaptureOptions(again=True)) == 2
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


REPEATED: Final = "a copy of this message was captured or quarantined again before: it is the quarantine's message of .*messages/m000{} at position 0*{}0{{10}} "


@pytest.mark.parametrize(
    "options", [None, replace(QUARANTINE, dry_run=True)], ids=["capture", "dry run"]
)
def test_a_message_that_was_captured_before_is_refused(
    place: Place, options: CaptureOptions | None
) -> None:
    before, rows = names(place, "ot"), rows_of(place)
    assert repair(place, rows[:1]) == 1
    with pytest.raises(DecodeError, match=REPEATED.format(1, 1)) as raised:
        repair(place, [rows[1], rows[2], rows[0], rows[3]], options, 2)

    assert (raised.value.where.source, raised.value.where.line) == (
        str(place.folder / "fix2.jsonl"),
        3,
    )
    assert raised.value.hint.startswith("Remove line 3 of this file")
    assert names(place, "ot") == [*before, ("r1", "W")]
    assert repair(place, rows[1:], number=3) == 3
    assert names(place, "ot") == [*before, *ADDED]


def test_the_error_lists_all_lines_that_were_captured_before(place: Place) -> None:
    rows = rows_of(place)
    repair(place, rows)
    with pytest.raises(DecodeError) as raised:
        repair(place, [*rows, {"body": GOOD.format("W", "more")}, rows[0]], number=2)

    assert raised.value.hint.startswith("Remove lines 1-4, 6 of this file")


@pytest.mark.parametrize("spanning", [True, False])
def test_a_message_that_is_passed_twice_is_refused(tmp_path: Path, spanning: bool) -> None:
    place = Place(tmp_path, spanning=spanning)
    place.write("bad", "worse")
    place.run("ot", QUARANTINE)
    good = GOOD.format("W", "r") if spanning else "I,MY.ORDERS,2026-01-01,1,r"
    lines = (tmp_path / "ot.quarantine.jsonl").read_text().splitlines()
    rows = [json.loads(line) | {"body": good} for line in lines]
    with pytest.raises(DecodeError, match=r"is also in .*fix1.jsonl, line 2 ") as raised:
        repair(place, [rows[1], rows[0], rows[0]])

    assert raised.value.where.line == 3
    assert repair(place, rows, number=2) == 2
    with pytest.raises(DecodeError, match=REPEATED.format(0, 0)):
        repair(place, rows[:1], number=3)


def test_a_copy_that_is_bad_again_stands_for_the_first_message(place: Place) -> None:
    before, rows = names(place, "ot"), rows_of(place)
    bad = [row | {"body": "bad" if at == 2 else row["body"]} for at, row in enumerate(rows)]
    assert repair(place, bad, QUARANTINE) == 1
    lines = (place.folder / "ot.quarantine.jsonl").read_text().splitlines()
    newer = [json.loads(line) for line in lines[4:]]
    newer[1]["body"] = REPAIRED[2]
    with pytest.raises(DecodeError, match=REPEATED.format(1, 1)) as raised:
        repair(place, [*rows, *newer], number=2)

    assert raised.value.hint.startswith("Remove lines 1-4 of this file")
    assert repair(place, newer, number=3) == 3
    assert names(place, "ot") == [*before, *ADDED]


def test_with_again_messages_are_captured_once_more(place: Place) -> None:
    before, rows, again = names(place, "ot"), rows_of(place), CaptureOptions(again=True)
    repair(place, rows)
    repair(place, rows, again)

    assert names(place, "ot") == [*before, *ADDED, *ADDED]
    with pytest.raises(DecodeError, match=REPEATED.format(1, 1)):
        repair(place, rows, number=2)


def test_lines_added_to_a_captured_file_are_captured_alone(place: Place) -> None:
    before, rows = names(place, "ot"), rows_of(place)
    repair(place, rows[:1])
    assert repair(place, rows) == 3
    assert names(place, "ot") == [*before, *ADDED]


def test_a_trail_of_an_earlier_version_remembers_from_now_on(place: Place) -> None:
    path, rows = place.folder / "ot.manifest.json", rows_of(place)
    fields = json.loads(path.read_text())
    del fields["repaired"], fields["quarantine_end"]
    path.write_text(json.dumps(fields))
    assert repair(place, rows) == 4
    with pytest.raises(DecodeError, match=REPEATED.format(1, 1)):
        repair(place, rows, number=2)

    manifest = read_manifest(str(place.folder / "ot"))
    assert manifest is not None
    assert len(manifest.repaired) == 4 * 16


def test_messages_with_the_same_identity_are_captured_as_often_as_they_are_quarantined(
    tmp_path: Path,
) -> None:
    place, file = Place(tmp_path), tmp_path / "hour.jsonl"
    for more in ("1", "2"):
        sent = ["bad", f"I,MY.ORDERS,2026-01-01,{more},x"]
        file.write_text("".join(json.dumps({"body": body}) + "\n" for body in sent))
        place.run("ot", QUARANTINE, file)
    lines = (tmp_path / "ot.quarantine.jsonl").read_text().splitlines()
    assert len({json.dumps(json.loads(line)) for line in lines}) == 1
    rows = [json.loads(line) for line in lines]
    for number, row in enumerate(rows, 1):
        row["body"] = f"I,MY.ORDERS,2026-01-01,{number},r{number}"
        assert repair(place, [row], number=number) == 1
    with pytest.raises(DecodeError, match="captured or quarantined again before"):
        repair(place, rows, number=3)

    assert place.names("ot") == ["x", "x", "r1", "r2"]


def test_of_two_messages_with_the_same_identity_none_is_called_captured(tmp_path: Path) -> None:
    """Only their contents tell them apart, so no line may be named as the one to remove."""
    place, file = Place(tmp_path), tmp_path / "hour.jsonl"
    for more in "12":
        sent = ["bad", f"I,MY.ORDERS,2026-01-01,{more},x"]
        file.write_text("".join(json.dumps({"body": body}) + "\n" for body in sent))
        place.run("ot", QUARANTINE, file)
    lines = (tmp_path / "ot.quarantine.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    for number, row in enumerate(rows, 1):
        row["body"] = f"I,MY.ORDERS,2026-01-01,{number},r{number}"
    assert repair(place, rows[:1], number=1) == 1

    with pytest.raises(DecodeError, match="one of the two was captured before"):
        repair(place, rows, number=2)
    assert repair(place, rows[1:], number=3) == 1
    assert place.names("ot") == ["x", "x", "r1", "r2"]


def test_lines_in_utf_16_are_refused(place: Place) -> None:
    before, rows = names(place, "ot"), rows_of(place)
    path = place.folder / "fix.jsonl"
    path.write_text(json.dumps(rows[1]), encoding="utf-16")

    with pytest.raises(DecodeError, match="the line is not JSON"):
        place.run("ot", None, path)
    assert names(place, "ot") == before


FAULTY: Final[Mapping[str, tuple[Callable[[dict[str, Any]], bytes], str]]] = {
    "not UTF-8": (
        lambda row: json.dumps(row).replace("r2", "r\xe7").encode("latin-1"),
        "the line is not JSON: .*utf-8",
    ),
    "no body": (
        lambda row: json.dumps({key: row[key] for key in row if key != "body"}).encode(),
        "the line has no body",
    ),
    "no value": (
        lambda row: json.dumps(row | {"body": None}).encode(),
        "the message has no value",
    ),
    "no JSON": (lambda row: json.dumps(row).encode()[:-1], "the line is not JSON"),
}


@pytest.mark.parametrize("options", [None, QUARANTINE], ids=["stop", "quarantine"])
@pytest.mark.parametrize("case", [*FAULTY])
def test_a_repaired_line_that_cannot_be_read_is_not_called_missing(
    place: Place, case: str, options: CaptureOptions | None
) -> None:
    change, problem = FAULTY[case]
    before, rows = names(place, "ot"), rows_of(place)
    lines = [change(row) if at == 2 else json.dumps(row).encode() for at, row in enumerate(rows)]
    path = place.folder / "fix.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    with pytest.raises(DecodeError, match=problem) as raised:
        place.run("ot", options, path)

    assert (raised.value.where.source, raised.value.where.line) == (str(path), 3)
    assert names(place, "ot") == before


def test_a_missing_line_is_called_missing_although_another_cannot_be_read(place: Place) -> None:
    rows, path = rows_of(place), place.folder / "fix1.jsonl"
    path.write_text(
        "".join(json.dumps(row) + "\n" for row in [rows[1], rows[3], rows[0] | {"body": None}])
    )
    with pytest.raises(TransactionError, match=MISSING.format(4, 3, 1)):
        place.run("ot", None, path)
