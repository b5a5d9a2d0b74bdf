"""``trailgate report``: one file that shows what the trail holds, escapes it, and loads nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from browse.trails import plain_trail
from trailgate.browse.index import TrailIndex
from trailgate.cli.main import run

pytest.importorskip("jinja2")


class Tags(HTMLParser):
    """Collects the tags of a page, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a tag."""
        self.found.append((tag, dict(attrs)))


def test_a_report_has_tables_checks_and_transactions_and_loads_nothing(tmp_path: Path) -> None:
    target = tmp_path / "aa.html"

    assert run(["report", plain_trail(tmp_path), "--to", str(target)]) == 0

    page = target.read_text("utf-8")
    for text in ("MY.ORDERS", "MY.NOTES", "The trail is whole", "tx0", "Files", "3 update"):
        assert text in page
    tags = Tags(page).found
    loading = {"src", "href", "action", "data", "srcset", "poster"}
    assert not [one for one in tags if one[0] in ("script", "link", "iframe", "object", "img")]
    assert not [attributes for _, attributes in tags if loading & attributes.keys()]
    assert not re.search(r"url\(|@import", page)


def test_a_report_of_a_damaged_trail_lists_what_check_finds(tmp_path: Path) -> None:
    prefix, target = plain_trail(tmp_path), tmp_path / "aa.html"
    file = Path(f"{prefix}000000000")
    raw = bytearray(file.read_bytes())
    raw[-60:-50] = b"<b>damage!"
    file.write_bytes(raw)

    assert run(["report", prefix, "--to", str(target)]) == 0

    page = target.read_text("utf-8")
    assert "The trail is whole" not in page
    assert "<b>" not in page
    assert 'class="error"' in page


def test_a_report_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "aa.html"
    target.write_text("mine")

    assert run(["report", plain_trail(tmp_path), "--to", str(target)]) == 1
    assert "the file exists already" in capsys.readouterr().err
    assert target.read_text() == "mine"


def test_the_index_counts_what_the_trail_has(tmp_path: Path) -> None:
    with TrailIndex(plain_trail(tmp_path)) as index:
        index.build()
        longest = index.transactions.by_operations[0]
        assert index.begin_of_transaction(longest.id) == longest.begin
        assert index.begin_of_transaction("not there") is None

    assert index.done
    assert not index.problem
    assert (index.operations, index.transactions.count) == (7, 4)
    assert index.transactions.sizes[:2].tolist() == [1, 3]
    assert index.transactions.durations.tolist() == [1, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0]
    kinds = {name: one.kinds.tolist() for name, one in index.tables.items()}
    assert kinds == {"MY.ORDERS": [2, 3, 0, 1, 0], "MY.NOTES": [1, 0, 0, 0, 0]}
    assert [span.operations for span in index.spans] == [4, 3]


def test_ids_with_the_same_hash_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trailgate.browse.index.hash", lambda _: 7, raising=False)
    with TrailIndex(plain_trail(tmp_path)) as index:
        index.build()
        transactions = sorted(index.transactions.by_operations, key=lambda one: one.begin)
        first = {one.id: one.begin for one in reversed(transactions)}
        assert len(first) == 2
        assert {one: index.begin_of_transaction(one) for one in first} == first
        assert index.begin_of_transaction("not there") is None
