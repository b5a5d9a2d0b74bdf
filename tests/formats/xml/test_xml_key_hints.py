"""Promises about rules that give a key to one image alone: the error of an operation that has the other one says what to change."""

from __future__ import annotations

import pytest

from held_captures import messages_of, xml_capture

RULES = """
xml.rules=tx
tx.type=tx
tx.match=/t
tx.subrules=op
op.type=op
op.match=./o
op.schemaandtable="OGG.PAIR"
op.optype=@k
op.subrules=one
one.type=col
one.match=./ID
one.name="ID"
"""


@pytest.mark.parametrize(
    ("rule", "kind", "hint"),
    [
        ("one.after.value=./text()", "D", "A delete needs before values, but the rule one has only after.value: use value, or add before.value"),
        ("one.before.value=./text()", "I", "An insert needs after values, but the rule one has only before.value: use value, or add after.value"),
        ("one.before.value=./text()", "U", "An update needs after values, but the rule one has only before.value"),
        ("one.value=./text()", "D", None),
        ("one.value=./text()", "I", None),
        ("one.after.value=./text()", "I", None),
        ("one.after.value=./text()\none.before.value=./text()", "D", None),
    ],
)  # fmt: skip
def test_a_missing_key_is_explained_by_its_rule(rule: str, kind: str, hint: str | None) -> None:
    capture = xml_capture(f"{RULES}{rule}\n")

    parsed = capture.parse(messages_of([f'<t><o k="{kind}"><ID>1</ID></o></t>'.encode()]))

    errors = [str(problem.error) for problem in parsed.problems]
    assert [hint in error for error in errors] == [True] * (hint is not None)  # type: ignore[operator]
    assert all("key column ID is missing" in error for error in errors)
