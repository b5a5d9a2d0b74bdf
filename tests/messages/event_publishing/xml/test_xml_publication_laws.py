"""Laws of reading XML publications: both ways of reading agree, cuts into batches change nothing, and any bytes give rows or our errors."""

from __future__ import annotations

import random
import tomllib
from itertools import chain
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laws import examples
from message_cases import batch_of
from publication_files import captured, column, message, row, transaction, xml_publications
from trailgate.columnar.kernels.compiled import INTERPRETED
from trailgate.jobs.capture.loading import messages_from
from trailgate.messages.capture import Capture

CASES = [
    case
    for path in sorted((Path(__file__).parent / "cases").glob("*.toml"))
    for case in tomllib.loads(path.read_text())["case"]
]
BODIES = list(chain.from_iterable(case["messages"] for case in CASES))
WARM = message(f"<heartbeat sendQName='Q'/><!--{'-.' * INTERPRETED}-->").encode()


def compiled() -> Capture:
    """Return a capture that has read so much that it scans."""
    capture = xml_publications()
    assert capture.parse(messages_from([WARM])).problems == ()
    return capture


SCANNING = compiled()


def test_the_scanner_and_the_general_way_agree_on_every_case() -> None:
    for case in CASES:
        messages = batch_of(case)

        assert captured(SCANNING, messages) == captured(xml_publications(), messages)


# Transactions with large objects, in messages that may be cut anywhere between batches.
def _part(number: int, text: str, last: int, total: int) -> str:
    given_ = (
        f'isLast="{last}" subName="S1" srcOwner="USER1" srcName="T1" rowNum="{number}" colName="L"'
    )
    return message(
        f'<lob {given_} totalDataLen="{total}" dataLen="{len(text)}"><clob>{text}</clob></lob>'
    )


@st.composite
def damaged(draw: st.DrawFn, body: bytes) -> list[bytes]:
    """Return what comes instead of a message: it is lost, sent twice, followed by others that nobody expects, or cut off."""
    part = _part(draw(st.integers(1, 3)), "x", 1, 1)
    odd = [part.encode(), part.encode("utf-16"), b"<", b"\xff", b"\xfe\xff\xd8"]
    odd.append(message("<heartbeat/><heartbeat/>").encode())
    cut = body[: draw(st.integers(1, len(body)))]
    bad = draw(st.sampled_from([(b"<integer>", b"<integer>x"), (b"T1", b"T2"), (b"2026-", b"2-")]))
    instead = [[], [body, body], [cut], [body, draw(st.sampled_from(odd))], [body.replace(*bad)]]
    return draw(st.sampled_from(instead))


@st.composite
def runs(draw: st.DrawFn) -> list[bytes]:
    found: list[str] = []
    for commit in range(draw(st.integers(1, 4))):
        segments = draw(st.integers(1, 3))
        number = 0
        for segment in range(1, segments + 1):
            rows, parts = [], []
            for _ in range(draw(st.integers(1, 2))):
                number += 1
                large = draw(st.booleans())
                more = ' hasLOBCols="1"' if large else ""
                rows.append(
                    row(
                        "insertRow",
                        column("ID", f"<integer>{number}</integer>"),
                        number=number,
                        more=more,
                    )
                )
                if large:
                    texts = draw(st.lists(st.text("abc", max_size=3), min_size=1, max_size=3))
                    total = sum(map(len, texts))
                    parts += [
                        _part(number, text, int(at == len(texts) - 1), total)
                        for at, text in enumerate(texts)
                    ]
            last = int(segment == segments)
            found.append(transaction(*rows, segment=segment, last=last, commit=f"00{commit:02}"))
            found += parts
            if draw(st.booleans()):
                found.append(message("<heartbeat sendQName='Q'/>"))
    bodies = [each.encode() for each in found]
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(bodies) - 1))
        bodies[at : at + 1] = draw(damaged(bodies[at]))
        bodies = bodies or [b" "]
    return bodies


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(runs(), st.lists(st.integers(0, 20), max_size=4))
def test_cuts_into_batches_change_nothing(bodies: list[bytes], cuts: list[int]) -> None:
    messages = messages_from(bodies)
    inside = [cut for cut in cuts if cut < len(bodies)]

    whole = captured(SCANNING, messages)

    assert captured(SCANNING, messages, inside) == whole


def test_a_transaction_that_waits_does_not_end_the_one_before() -> None:
    large = ' hasLOBCols="1"'
    number = column("ID", "<integer>1</integer>")
    bodies = [
        transaction(row("insertRow", number), segment=1, last=0, commit="0001"),
        transaction(row("insertRow", number, more=large), segment=1, last=1, commit="0002"),
        _part(1, "a", 1, 1),
    ]
    messages = messages_from([body.encode() for body in bodies])

    for cuts in [], [1], [2], [1, 2]:
        found = captured(SCANNING, messages, cuts)

        assert [each["csn"] for each in found.rows] == ["0002"]
        ((message_, problem),) = found.problems
        assert message_ == 0
        assert "has not ended where the next one begins" in problem


def test_documents_of_several_encodings_in_a_batch_keep_their_places() -> None:
    number = column("ID", "<integer>1</integer>")
    bodies = [transaction(row("insertRow", number), commit=f"000{at}") for at in range(4)]
    encodings = "utf-8", "utf-16", "utf-8", "utf-16"
    encoded = [body.encode(name) for body, name in zip(bodies, encodings, strict=True)]

    found = captured(SCANNING, messages_from(encoded))

    assert [each["csn"] for each in found.rows] == ["0000", "0001", "0002", "0003"]
    assert found.problems == []


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(BODIES), st.randoms(use_true_random=False))
def test_damaged_messages_give_rows_or_errors_in_both_ways(body: str, draw: random.Random) -> None:
    data = bytearray(body.encode())
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(data))
        kind = draw.randrange(3)
        if kind == 0:
            data[at] = draw.choice(b'<>/"= 01&;a\x00\xff')
        elif kind == 1:
            del data[at : at + draw.randrange(1, 20)]
        else:
            data[at:at] = data[draw.randrange(len(data)) :][: draw.randrange(1, 40)]
        data = data or bytearray(b" ")
    messages = messages_from([bytes(data)])

    found = captured(SCANNING, messages)

    assert found == captured(xml_publications(), messages)


@given(st.binary(max_size=200))
def test_any_bytes_give_rows_or_errors(data: bytes) -> None:
    found = captured(SCANNING, messages_from([data]))

    assert found.problems or not data.strip()
