"""Rules that never match are named at the end of a run."""

from __future__ import annotations

import pytest

from held_captures import xml_capture
from trailgate.messages.message_batch import messages_from

RULES = """xml.rules=tx
tx.type=tx
tx.match=/Orders
tx.subrules=op,other
op.type=op
op.match=./order
op.schemaandtable="OGG.PAIR"
op.optype="I"
op.subrules=id,name
id.type=col
id.name="ID"
id.value=@id
name.type=col
name.match=./Nam
name.name="NAME"
name.value=./text()
other.type=op
other.match=./Return
other.schemaandtable="OGG.PAIR"
other.optype="D"
other.subrules=id
"""
GOOD = "<Orders><order id='1'><Name>x</Name></order></Orders>"


def warnings_of(*batches: list[str]) -> set[str]:
    capture = xml_capture(RULES)
    notes = [capture.parse(messages_from(bodies)).notes for bodies in batches]
    return set(capture.warnings(frozenset().union(*notes)))


def test_rules_that_never_match_are_named_with_names_that_occur() -> None:
    assert warnings_of([GOOD]) == {
        "the rule name never matched: ./Nam; the messages have Name",
        "the rule other never matched: ./Return",
    }


def test_a_match_in_any_batch_counts() -> None:
    other = "<Orders><Return id='1'/><order id='2'><Nam>x</Nam></order></Orders>"

    assert warnings_of([GOOD], [other], [GOOD]) == set()


def test_rules_below_one_that_never_matches_are_not_named() -> None:
    assert warnings_of(["<orders/>"]) == {
        "the rule tx never matched: /Orders; the messages have orders",
    }


def test_rules_are_not_named_where_no_message_can_be_read() -> None:
    assert warnings_of(["<Orders><order id='x'/></Orders>"]) == set()
    assert warnings_of([]) == set()


IMAGES = """xml.rules=op
op.type=op
op.match=//o
op.schemaandtable="OGG.FIVE"
op.optype=@t
op.txowner=@usr
op.subrules=col
col.type=col
col.match=./c
col.name=@n
col.before.value=./before/text()
col.after.value=./after/text()
"""


def said_of_images(*messages: str) -> set[str]:
    capture = xml_capture(IMAGES)
    return set(capture.warnings(capture.parse(messages_from(messages)).notes))


def test_paths_that_never_find_a_value_are_named_with_names_that_occur() -> None:
    key = "<c n='C1'><beforevalue>1</beforevalue><after>1</after></c>"

    found = said_of_images(f"<o t='I' user='x'>{key}<c n='C2'><aftervalue>2</aftervalue></c></o>")

    assert found == {
        "op.txowner never found anything: ./@usr; the messages have user",
        "col.before.value never found anything: ./before/text(); the messages have beforevalue",
    }


def test_an_image_that_messages_do_not_have_is_not_named() -> None:
    key = "<c n='C1'><after>1</after></c>"

    assert said_of_images(f"<o t='I' usr='x'>{key}</o>") == set()
    assert said_of_images(f"<o t='U' usr='x'>{key}<c n='C2'><before/></c></o>") == set()


@pytest.mark.parametrize("scanned", [False, True], ids=["tree", "scanner"])
@pytest.mark.parametrize("path", ["./after/text()", "../c/after/text()", "./after/@v"])
def test_a_path_that_finds_several_values_is_named(path: str, *, scanned: bool) -> None:
    rules = IMAGES.replace("./after/text()", path).replace("op.txowner=@usr\n", "")
    rules = rules.replace("col.before.value=./before/text()\n", "")
    capture = xml_capture(rules)
    once = "<o t='I'><c n='C1'><after v='1'>1</after></c></o>"
    twice = once.replace("</c>", "<after v='2'>2</after></c>")
    many = [once] * (4000 if scanned else 1)

    assert not set(capture.warnings(capture.parse(messages_from(many)).notes))
    notes = capture.warnings(capture.parse(messages_from([*many, twice])).notes)
    assert set(notes) == {
        f"col.after.value found several values at once, of which the first counts: {path}"
    }


def test_a_rule_whose_paths_find_nothing_is_named() -> None:
    rules = RULES.replace("./Nam", "./Name").replace("name.value=./text()", "name.value=./x/text()")
    capture = xml_capture(rules.replace("op,other", "op").partition("other.type")[0])

    notes = capture.parse(messages_from([GOOD])).notes

    assert set(capture.warnings(notes)) == {"name.value never found anything: ./x/text()"}
