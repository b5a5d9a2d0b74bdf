"""Words of the command line: counts with their nouns, ages in units that people read, values that are not numbers, addresses of nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from capture_place import Place, row
from sample_trail import Op, write_trail
from trailgate.cli.main import run
from trailgate.terminal.durations import format_age


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (119.9, "119.9 s"),
        (120, "2 min"),
        (7_199, "119 min"),
        (7_200, "2 h"),
        (172_799, "47 h"),
        (27_827_769.8, "322 days"),
    ],
)
def test_an_age_has_a_unit_that_fits_it(seconds: float, text: str) -> None:
    assert format_age(seconds) == text


@pytest.mark.parametrize(
    ("bodies", "line"),
    [
        ([row(1), "bad\n"], "quarantined: 1 message:"),
        (["bad\n"], "quarantined: 1 message, which is all:"),
        (["bad\n", "bad\n"], "quarantined: 2 messages, which is all:"),
        ([row(1), "bad\n", "bad\n"], "quarantined: 2 of 3 messages, which is most of them:"),
    ],
)
def test_bad_messages_are_counted_in_a_sentence(
    bodies: list[str], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path)
    place.write(*bodies)
    words = ["capture", "--properties", str(tmp_path / "p.properties"), "--on-error", "quarantine"]
    run([*words, "--from", str(place.messages), "--to", str(tmp_path / "ot")])

    assert line in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["show", "x", "--limit", "all"], "'all' is not a whole number"),
        (["show", "x", "--limit", "1.5"], "'1.5' is not a whole number"),
        (["show", "x", "--limit", "-3"], "'-3' is below 0"),
        (["show", "http://h/x"], "http:// is not the scheme of a known store. Known: abfs://"),
        (["show", "ftp://h/x"], "ftp:// is not the scheme of a known store"),
        (["capture", "--from", "http://localhost/orders"], "http:// is neither the protocol of a broker nor that of a store. Known are stomp://"),
        (["capture", "--from", "kafak://h/t"], "Did you mean kafka"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(
    words: list[str], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Place(tmp_path)
    if words[0] == "capture":
        words += ["--properties", str(tmp_path / "p.properties"), "--to", str(tmp_path / "ot")]

    assert run(words) == 2
    assert line in capsys.readouterr().err


def test_a_trail_without_a_journal_explains_that_kafka_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = write_trail(tmp_path / "ot", [[[Op("I", 1)]]])

    assert run(["journal", "list", str(prefix)]) != 0
    assert "a capture from Kafka needs none" in capsys.readouterr().err
    assert run(["journal", "list", str(tmp_path / "no")]) != 0
    assert "or the prefix of the trail" in capsys.readouterr().err
