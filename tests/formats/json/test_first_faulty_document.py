"""The error of a message names its first faulty document, whichever check finds a fault first."""

from __future__ import annotations

from itertools import permutations

import pytest

from held_captures import messages_of
from messages.test_byte_order_marks import EVENT, FLAT, FORMS

FAULTS = {
    "syntax": FLAT.replace('"OGG.PAIR"', "OGG"),
    "unknown table": FLAT.replace("OGG.PAIR", "OGG.NONE"),
    "unknown operation": FLAT.replace('"I"', '"X"'),
    "a value": FLAT.replace('"ID":1', '"ID":"x"'),
    "a time": FLAT.replace("2020-01-01", "2020-13-01"),
    "no object": "true",
}


@pytest.mark.parametrize("kinds", list(permutations(FAULTS, 2)), ids=" before ".join)
@pytest.mark.parametrize("form", ["{0}\n{1}\n{2}\n{1}", "[{0},{1} , {2}]", "\ufeff {0} {1}{2}"])
def test_the_first_faulty_document_is_named(kinds: tuple[str, str], form: str) -> None:
    good = FLAT.replace("{", '{"NAME":"é",')
    first, second = (FAULTS[kind] for kind in kinds)
    body = form.format(good, first, second).encode()
    capture = FORMS["JSON"].capture()
    alone = capture.parse(messages_of([first.encode()])).problems[0].error

    (problem,) = capture.parse(messages_of([FLAT.encode(), body])).problems

    assert problem.message == 1
    assert problem.error.problem == alone.problem
    assert kinds[0] == "syntax" or problem.error.where.record == 2
    expected = body.index(first.encode()) + (alone.where.offset or 0)
    assert problem.error.where.offset == expected


def test_the_first_faulty_event_is_named() -> None:
    bad, worse = EVENT.replace('"ID":1', '"ID":"x"'), EVENT.replace('"c"', '"y"')
    body = f"{EVENT}\n{bad}\n{EVENT}\n{worse}\n".encode()

    (problem,) = FORMS["change events"].capture().parse(messages_of([body])).problems

    assert problem.error.where.record == 2
    assert problem.error.where.field == "ID"
