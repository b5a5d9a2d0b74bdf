"""Publications and change events of transactions as they are sent, and what may be wrong with them."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from publication_files import column, message, row, transaction
from publication_strings import record


def part_of(number: int, text: str, last: int, total: int) -> str:
    """Return a message with a part of the large object of a row."""
    given_ = (
        f'isLast="{last}" subName="S1" srcOwner="USER1" srcName="T1" rowNum="{number}" colName="L"'
    )
    return message(
        f'<lob {given_} totalDataLen="{total}" dataLen="{len(text)}"><clob>{text}</clob></lob>'
    )


@st.composite
def _damaged(draw: st.DrawFn, body: bytes) -> list[bytes]:
    """Return what comes instead of a message: it is lost, sent twice, followed by others that nobody expects, or cut off."""
    part = part_of(draw(st.integers(1, 3)), "x", 1, 1)
    odd = [part.encode(), part.encode("utf-16"), b"<", b"\xff", b"\xfe\xff\xd8"]
    odd.append(message("<heartbeat/><heartbeat/>").encode())
    cut = body[: draw(st.integers(1, len(body)))]
    bad = draw(st.sampled_from([(b"<integer>", b"<integer>x"), (b"T1", b"T2"), (b"2026-", b"2-")]))
    instead = [[], [body, body], [cut], [body, draw(st.sampled_from(odd))], [body.replace(*bad)]]
    return draw(st.sampled_from(instead))


@st.composite
def xml_runs(draw: st.DrawFn) -> list[bytes]:
    """Return XML publications of transactions with large objects, some of them damaged."""
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
                    strings = draw(st.lists(st.text("abc", max_size=3), min_size=1, max_size=3))
                    total = sum(map(len, strings))
                    parts += [
                        part_of(number, text, int(at == len(strings) - 1), total)
                        for at, text in enumerate(strings)
                    ]
            last = int(segment == segments)
            found.append(transaction(*rows, segment=segment, last=last, commit=f"00{commit:02}"))
            found += parts
            if draw(st.booleans()):
                found.append(message("<heartbeat sendQName='Q'/>"))
    bodies = [each.encode() for each in found]
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(bodies) - 1))
        bodies[at : at + 1] = draw(_damaged(bodies[at]))
        bodies = bodies or [b" "]
    return bodies


@st.composite
def delimited_runs(draw: st.DrawFn) -> list[bytes]:
    """Return messages of numbered transactions, some of them lost, sent twice, unreadable or with a bad value."""
    bodies = []
    for tx in range(draw(st.integers(1, 4))):
        for number in range(draw(st.integers(1, 3))):
            values = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=2))
            body = b"".join(
                record(f',,"{value}",', tx=f"{tx:04}", segment=number) for value in values
            )
            odd = [[], [body, body], [b'10,"IBM'], [body.replace(b"-18.00", b"-99.00")], [b"7,"]]
            bodies += draw(st.sampled_from([*[[body]] * 8, *odd]))
    return bodies or [b" "]


def event(tx: int, value: object, snapshot: str) -> bytes:
    source = {
        "ts_ms": 1705611172576,
        "db": "OGG",
        "table": "PAIR",
        "txId": tx,
        "snapshot": snapshot,
    }
    return json.dumps({"after": {"ID": value}, "source": source, "op": "c"}).encode()


@st.composite
def debezium_runs(draw: st.DrawFn) -> list[bytes]:
    """Return events of transactions, some of them lost, sent twice, unreadable or with a bad value."""
    bodies: list[bytes] = []
    for number in range(draw(st.integers(1, 8))):
        tx, snapshot = draw(st.integers(1, 3)), draw(st.sampled_from(["false", "false", "true"]))
        good = event(tx, number, snapshot)
        bad = event(tx, "x", snapshot)
        odd = [[good, good], [b"{"], [b"[]"], [b"null"], [bad], [good[: draw(st.integers(1, 90))]]]
        bodies += draw(st.sampled_from([*[[good]] * 8, *odd]))
    return bodies
