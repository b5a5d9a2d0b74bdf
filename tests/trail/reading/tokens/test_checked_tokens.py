"""Tokens that are checked are refused exactly if tokens that are read are refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from trailgate.errors import DecodeError
from trailgate.trail.format.tokens import GGS_TOKEN_ROWS, ByteOrder
from trailgate.trail.reading.tokens import build_token_maps, check_tokens
from trailgate.trail.records.framing import Spans, wrap_trail_bytes

UNKNOWN = 0xEE  # an id that no token has
CODES = [*(row.code for row in GGS_TOKEN_ROWS), UNKNOWN]
PAYLOADS = (b"", b"A", b"1234567\0", b"\xff\xfe", "é".encode()[:1], b"good\0" + b"\xff" * 40)
LENGTHS = (0, 1, 200)  # added to the length that the frame states


def _refused(areas: list[bytes], order: ByteOrder, groups: list[int]) -> tuple[str, str]:
    """Return the problems of reading the areas and of checking them."""
    source = wrap_trail_bytes(b"".join(areas), 0, order)
    ends = np.cumsum([len(area) for area in areas])
    spans = Spans(ends - [len(area) for area in areas], ends)
    problems = []
    for function in (
        lambda: build_token_maps(source, spans, np.array(groups), max(groups) + 1),
        lambda: check_tokens(source, spans, np.array(groups)),
    ):
        try:
            function()
            problems.append("")
        except DecodeError as error:
            problems.append(f"{error.problem} {error.where.offset}")
    return problems[0], problems[1]


@pytest.mark.parametrize("order", ByteOrder)
@pytest.mark.parametrize("code", CODES)
def test_a_token_is_refused_alike(code: int, order: ByteOrder) -> None:
    outcomes = set()
    for payload, more in product(PAYLOADS, LENGTHS):
        bad = bytes((code, 0)) + order.raw(len(payload) + more, 2) + payload
        good = bytes((UNKNOWN, 0)) + order.raw(2, 2) + b"\xff\xff"
        for areas in ([bad], [good, bad], [bad, good], [good + bad, b"", good]):
            # the second record of a group repeats an id: its token is not read
            for groups in (list(range(len(areas))), [0] * len(areas)):
                read, checked = _refused(areas, order, groups)
                assert checked == read, (payload, more, areas, groups)
                outcomes.add(bool(read))
    assert outcomes == {False, True}
