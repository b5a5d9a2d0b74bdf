"""Before and after values of XML messages, present, empty and absent: what is absent is not NULL, and no change is lost (decision 0047)."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest

from held_captures import xml_capture
from laws import sampled
from message_cases import batch_of, rows_of
from oracles.xml_columns_naive import Operation, operation
from trailgate.capture.capture import Capture, Parsed
from trailgate.expressions.capture_rules import CaptureRules
from trailgate.formats.xml import reader as reading

# The rules of README, with what makes a value NULL or missing.
RULES = """xml.rules=oprule
oprule.type=op
oprule.match=/u
oprule.schemaandtable="OGG.FIVE"
oprule.optype=@t
oprule.subrules=colrule
colrule.type=col
colrule.match=./column
colrule.name=@name
colrule.before.value=./beforevalue/text()
colrule.before.isnull=./beforevalue/@isnull
colrule.before.ismissing=./beforevalue/missing
colrule.after.value=./aftervalue/text()
colrule.after.isnull=./aftervalue/@isnull
colrule.after.ismissing=./aftervalue/missing
"""
ABSENT, EMPTY = "", "<{0}/>"
STATES = (
    ABSENT,
    EMPTY,
    "<{0}></{0}>",
    "<{0}>1</{0}>",
    "<{0}>2</{0}>",
    "<{0} isnull=''>1</{0}>",
    "<{0}>1<missing/></{0}>",
)
KEYS = [(ABSENT, STATES[3]), (STATES[3], STATES[3]), (STATES[6], STATES[4]), (STATES[4], STATES[3])]
SETTINGS = list(product([False, True], repeat=2))


def column(name: str, before: str, after: str) -> str:
    parts = before.format("beforevalue") + after.format("aftervalue")
    return f"<column name='{name}'>{parts}</column>"


def message(kind: str, key: tuple[str, str], *others: tuple[str, str]) -> str:
    columns = [column("C1", *key), *(column(f"C{i}", *o) for i, o in enumerate(others, 2))]
    return f"<u t='{kind}'>{''.join(columns)}</u>"


def messages() -> list[str]:
    """Return updates with every state of the values of key and other columns; inserts and deletes with every state of theirs."""
    pairs = list(product(STATES, STATES))
    updates = [
        message("U", key, other, pairs[number * 5 % len(pairs)])
        for key in KEYS
        for number, other in enumerate(pairs)
    ]
    inserts = [message("I", KEYS[0], (ABSENT, state)) for state in STATES]
    deletes = [message("D", KEYS[3], (state, ABSENT)) for state in STATES]
    return updates + inserts + deletes


@cache
def capture(update_befores: bool, all_columns: bool) -> Capture:
    rules = CaptureRules(
        compress_updates=not all_columns, update_befores=update_befores, compress_deletes=False
    )
    return xml_capture(RULES, rules)


def parsed(capture: Capture, bodies: list[str]) -> Parsed:
    return capture.parse(batch_of({"messages": bodies}))


def operations(capture: Capture, bodies: list[str]) -> list[Operation]:
    found = parsed(capture, bodies)
    assert not found.problems
    return [Operation(row["op_type"], row["before"], row["after"]) for row in rows_of(found)]


def expected(text: str, update_befores: bool, all_columns: bool) -> Operation:
    return operation(
        text, {"C1"}, get_update_befores=update_befores, no_compress_updates=all_columns
    )


@pytest.mark.parametrize("interpreted", [True, False], ids=["tree", "scanner"])
@pytest.mark.parametrize(("update_befores", "all_columns"), SETTINGS)
def test_images_are_those_of_the_manual(
    update_befores: bool, all_columns: bool, interpreted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "INTERPRETED", 1 << 40 if interpreted else 0)
    bodies = messages()

    found = operations(capture(update_befores, all_columns), bodies)

    for body, own in zip(bodies, found, strict=True):
        assert own == expected(body, update_befores, all_columns), body


@pytest.mark.parametrize(("update_befores", "all_columns"), SETTINGS)
def test_a_message_alone_gives_the_same(update_befores: bool, all_columns: bool) -> None:
    for body in sampled(messages(), 20, f"xml images {update_befores} {all_columns}"):
        found = operations(capture(update_befores, all_columns), [body])

        assert found == [expected(body, update_befores, all_columns)], body


@pytest.mark.parametrize(
    ("kind", "key", "says"),
    [
        ("U", (STATES[3], ABSENT), "key column C1 is missing"),
        ("U", (STATES[3], STATES[6]), "key column C1 is missing"),
        ("U", (EMPTY, STATES[3]), "the before value of key column C1 is NULL"),
        ("U", (STATES[5], STATES[3]), "the before value of key column C1 is NULL"),
        ("D", (ABSENT, STATES[3]), "key column C1 is missing"),
        ("D", (EMPTY, ABSENT), "the before value of key column C1 is NULL"),
        ("I", (STATES[3], STATES[6]), "key column C1 is missing"),
    ],
)
def test_a_key_without_a_value_is_an_error(kind: str, key: tuple[str, str], says: str) -> None:
    (problem,) = parsed(capture(True, True), [message(kind, key)]).problems

    assert says in str(problem.error)


def test_conditions_of_one_image_do_not_need_its_value() -> None:
    rules = RULES.replace("colrule.before.value=./beforevalue/text()\n", "")
    body = message("U", KEYS[0], (STATES[5], STATES[4]), (STATES[3], STATES[4]))

    found = operations(xml_capture(rules, CaptureRules(update_befores=True)), [body])

    assert found == [Operation("U", {"C2": None}, {"C1": "1", "C2": "2", "C3": "2"})]


def test_paths_that_find_no_attribute_find_nothing() -> None:
    rules = RULES.replace("/text()", "/@v").replace("colrule.before.isnull", "colrule.isnull")
    body = message(
        "U", (ABSENT, "<{0} v='k'/>"), ("<{0} v=''/>", "<{0}/>"), ("<{0}/>", "<{0} v='1'/>")
    )

    found = operations(xml_capture(rules, CaptureRules(update_befores=True)), [body])

    assert found == [Operation("U", {"C2": ""}, {"C1": "k", "C3": "1"})]
