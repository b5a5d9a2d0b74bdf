"""Promises about rows laid out for a width: nothing is lost, and lines are no longer than the width."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from trailgate.terminal.kernels import GAP as GAP_SIZE
from trailgate.terminal.layout import (
    PaintedText,
    RowLayout,
    TableRow,
    display_width,
    wrap_row_parts,
)
from trailgate.terminal.output import GAP

STRINGS = st.text(st.sampled_from("abcXYZ=:.é漢字"), min_size=1, max_size=60)
PARTS = st.lists(STRINGS, min_size=1, max_size=8).map(
    lambda strings: [PaintedText(t, t) for t in strings]
)


def test_the_loop_that_lays_out_columns_has_the_same_gap() -> None:
    assert len(GAP) == GAP_SIZE


def squeezed(lines: list[str]) -> str:
    return "".join("".join(lines).split())


@given(PARTS, st.integers(12, 100), st.sampled_from(["", "    "]))
@example([PaintedText(":" * 21, ":" * 21)], 12, "")
def test_flowed_parts_keep_all_and_fit(parts: list[PaintedText], width: int, indent: str) -> None:
    lines = list(wrap_row_parts(parts, width, indent))

    assert squeezed(lines) == "".join(part.text for part in parts)
    assert all(display_width(line) <= width for line in lines)


@given(
    st.lists(st.tuples(STRINGS, STRINGS, st.lists(STRINGS, max_size=6)), min_size=1, max_size=6),
    st.one_of(st.none(), st.integers(12, 150)),
    st.integers(1, 6),
)
def test_rows_keep_all_and_fit(
    rows: list[tuple[str, str, list[str]]], width: int | None, first: int
) -> None:
    """Also where the rows by which the widths are chosen are shorter than later ones."""
    shown = [
        TableRow([PaintedText(a, a), PaintedText(b, b)], [PaintedText(text, text) for text in rest])
        for a, b, rest in rows
    ]
    layout = RowLayout(["one", "two"], "rest", width)
    heading = layout.begin(shown[:first])
    for (a, b, rest), row in zip(rows, shown, strict=True):
        lines = list(layout.lines(row))
        assert squeezed(lines) == a + b + "".join(rest)
        if width is None:
            assert len(lines) == 1
        else:
            assert all(display_width(line) <= width for line in [*lines, *heading])


def test_columns_too_wide_for_a_line_are_shown_by_name() -> None:
    cells = [PaintedText("1" * 20, "1" * 20), PaintedText("2", "2")]
    narrow, broad = RowLayout(["A", "B"], "", 20), RowLayout(["A", "B"], "", 40)

    assert narrow.begin([TableRow(cells)]) == []
    assert list(narrow.lines(TableRow(cells))) == ["A=" + "1" * 18, "    11  B=2"]
    assert broad.begin([TableRow(cells)]) == ["A                     B"]
    assert list(broad.lines(TableRow(cells))) == ["1" * 20 + "  2"]


def test_data_have_lines_of_their_own_where_the_head_leaves_no_room() -> None:
    head, data = (
        [PaintedText("0:1", "0:1"), PaintedText("I", "I")],
        [PaintedText("A=1", "A=1"), PaintedText("B=2", "B=2")],
    )
    below, beside = (
        RowLayout(["position", "op"], "columns", 40),
        RowLayout(["position", "op"], "columns", 80),
    )

    assert below.begin([TableRow(head, data)]) == ["position  op"]
    assert list(below.lines(TableRow(head, data))) == ["0:1       I", "    A=1  B=2"]
    assert beside.begin([TableRow(head, data)]) == ["position  op  columns"]
    assert list(beside.lines(TableRow(head, data))) == ["0:1       I   A=1  B=2"]
