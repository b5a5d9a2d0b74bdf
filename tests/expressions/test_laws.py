"""What holds for all expressions: any text is one or our error; columns agree with rows; states and numbers are exact."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from expressions.blocks import MISSING, NAMES, TABLE, block_of
from expressions.oracle import outcomes
from laws import examples
from trailgate.errors import OptionError
from trailgate.expressions.evaluation import evaluate_as_text, evaluate_condition, make_empty_block
from trailgate.expressions.functions import FUNCTIONS
from trailgate.expressions.parser import parse_condition, parse_value

WORDS = st.sampled_from(
    [
        *NAMES,
        *(f"@{name}" for name in FUNCTIONS),
        *["()", ",", "=", "<>", "<", "<=", ">", ">=", ".", "+", "-", "*", "/"],
        *["AND", "OR", "NOT", "BEFORE", "AFTER", "@NULL", "@PRESENT", "@ABSENT", "@NOPE"],
        *["1", "-2.50", "1e3", "1e999999999", "00000000000000000000000000000000000000001.5"],
        *[
            "'JOE'",
            "''",
            "'it''s'",
            "'2026-01-05'",
            "'00ff'",
            "'TRANSACTION'",
            "'USERNAME'",
            "'GGHEADER'",
        ],
        '"NAME"',
        '"',
        "'",
        "GGS_OP_TYPE",
        "é",
        "\n",
    ]
)
STRINGS = st.one_of(st.text(max_size=40), st.lists(WORDS, max_size=25).map(" ".join))
BLOCK = block_of(
    {
        "ID": [1, None, MISSING],
        "NAME": ["JOE", None, MISSING],
        "DAY": ["2026-01-05", None, MISSING],
    },
    {"NAME": ["é", "x", MISSING]},
)


@settings(max_examples=examples(600))
@example("ID = 1")
@given(STRINGS)
def test_any_text_is_a_condition_or_our_error_with_a_caret(text: str) -> None:
    try:
        condition = parse_condition(text)
        found = evaluate_condition(condition, BLOCK)
        evaluate_condition(condition, make_empty_block(TABLE))
    except OptionError as error:
        refusal = error.hint
    else:
        refusal = ""
    if refusal:
        assert refusal.endswith("^")
        assert text != "ID = 1"
        return

    assert len(found.selected) == len(found.undecided) == len(BLOCK)
    assert not (found.selected & found.undecided).any()
    assert pickle.loads(pickle.dumps(condition)) == condition


@settings(max_examples=examples(300))
@example("NAME")
@given(STRINGS)
def test_any_text_is_a_value_or_our_error_with_a_caret(text: str) -> None:
    try:
        found = evaluate_as_text(parse_value(text), BLOCK)
    except OptionError as error:
        refusal = error.hint
    else:
        refusal = ""
    if refusal:
        assert refusal.endswith("^")
        assert text != "NAME"
        return

    assert len(found) == len(BLOCK)


@pytest.mark.parametrize(
    "text", ["(" * 5000, "NOT " * 5000, "@STRUP (" * 5000, "ID = 1 AND " * 5000]
)
def test_nesting_and_length_are_no_danger(text: str) -> None:
    with pytest.raises(OptionError):
        parse_condition(text)


NUMBERS = st.decimals(-1000, 1000, places=2, allow_nan=False)
STATES = st.sampled_from([MISSING, None])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "ID": st.one_of(STATES, st.integers(-3, 3)),
            "PRICE": st.one_of(STATES, NUMBERS, st.sampled_from([Decimal("1.50"), Decimal(-2)])),
            "AMOUNT": st.one_of(
                STATES, NUMBERS.map(str), st.sampled_from(["1.5", "0015e-1", "-2"])
            ),
            "NAME": st.one_of(STATES, st.text("aJé ", max_size=3)),
        }
    ),
    min_size=1,
    max_size=8,
)
NUMERIC = st.sampled_from(["ID", "PRICE", "AMOUNT", "1.5", "-2", "1.505", "'1.50'", "1e2"])
TEXTUAL = st.sampled_from(["NAME", "'a'", "'J'", "''", "'aé'"])
SIGNS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


def compared(side: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(side, SIGNS, side).map(" ".join)


LEAVES = st.one_of(
    compared(NUMERIC).filter(lambda text: text.count("'") < 4),
    compared(TEXTUAL),
    st.builds(
        "{} {} @{}".format,
        st.sampled_from(["ID", "NAME"]),
        st.sampled_from(["=", "<>"]),
        st.sampled_from(["NULL", "PRESENT", "ABSENT"]),
    ),
)
TREES = st.recursive(
    LEAVES,
    lambda part: st.one_of(
        part.map("NOT ({})".format),
        st.builds("({} {} {})".format, part, st.sampled_from(["AND", "OR"]), part),
    ),
    max_leaves=6,
)


@settings(max_examples=examples(300), deadline=None)
@given(TREES, ROWS)
def test_columns_agree_with_rows(text: str, rows: list[dict[str, Any]]) -> None:
    condition = parse_condition(text)
    block = block_of({name: [row[name] for row in rows] for name in rows[0]})

    found = evaluate_condition(condition, block)

    for place, row in enumerate(rows):
        known = {name: value for name, value in row.items() if value is not MISSING}
        if isinstance(number := known.get("AMOUNT"), str):
            known["AMOUNT"] = Decimal(number)
        may_be = outcomes(condition.node, known)
        assert found.selected[place] == (may_be == {True})
        assert found.undecided[place] == (True in may_be and may_be != {True})
