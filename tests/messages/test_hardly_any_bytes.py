"""A batch of messages that have hardly any bytes is read or refused in every format."""

from __future__ import annotations

import codecs

import pytest

from held_captures import messages_of
from messages.test_byte_order_marks import FORMS

BODIES = (b"", b" ", b"\n", b"\0", b"<", b"{", b'"', b"\xff", b"\xef\xbb", codecs.BOM_UTF8)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("count", [1, 3])
def test_messages_with_hardly_any_bytes_are_read_or_refused(
    name: str, body: bytes, count: int
) -> None:
    parsed = FORMS[name].capture().parse(messages_of([body] * count))

    assert len(parsed.problems) in (0, count)
    assert not parsed.operations().num_rows
