"""A capture that stops at the first bad message makes the errors of few others, however many are bad."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import trailgate
from held_captures import SHOP
from trailgate.errors import TrailgateError

PROPERTIES = "parser.type=json\njson.sourcedefs=shop.def\njson.model=op\n"
GOOD = '{"table":"OGG.PAIR","op_type":"I","op_ts":"2026-01-01 00:00:00","after":{"ID":1}}'
BAD = {
    "not JSON": '{"table":@',
    "unknown table": GOOD.replace("OGG.PAIR", "OGG.NO@"),
    "a value": GOOD.replace('"ID":1', '"ID":"x@"'),
    "a time": GOOD.replace("2026-01-01", "x@"),
}
COUNT = 20_000


def errors_of(monkeypatch: pytest.MonkeyPatch, folder: Path, lines: list[str]) -> tuple[str, int]:
    """Return the error of a capture, and how many errors were made."""
    (folder / "shop.def").write_text(SHOP)
    (folder / "p.properties").write_text(PROPERTIES)
    (folder / "messages").write_text("\n".join(lines) + "\n")
    made = 0
    usual = TrailgateError.__init__

    def counting(self: TrailgateError, *given: Any, **named: Any) -> None:
        nonlocal made
        made += 1
        usual(self, *given, **named)

    monkeypatch.setattr(TrailgateError, "__init__", counting)
    with pytest.raises(TrailgateError) as caught:
        trailgate.capture_files(
            folder / "messages",
            folder / "ot",
            folder / "p.properties",
            message_per="line",
            base=folder,
        )
    return str(caught.value), made


# A run parses 64 messages, then 512, then 4,096: `part` is the size of the part with the first bad one.
@pytest.mark.parametrize(("good", "part"), [(0, 64), (100, 512), (1000, 4096)])
@pytest.mark.parametrize("name", BAD)
def test_few_errors_are_made(
    name: str, good: int, part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = [BAD[name].replace("@", str(number)) for number in range(COUNT - good)]
    text, made = errors_of(monkeypatch, tmp_path, [GOOD] * good + bad)

    assert good == 0 or f"message at byte {good * (len(GOOD) + 1)}," in text
    assert made < 200 + part
