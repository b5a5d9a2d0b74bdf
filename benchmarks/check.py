"""Checking a trail, beside a loop that looks at one record after the other, and a copy of memory."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.report import Figure, Target, fastest
from benchmarks.trail_codec import DEFINITIONS, sample

from trailgate.arrays import octets
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.jobs.trail_check import check_trail
from trailgate.trail.format.file_header import FileHeader, TrailInfo, encode_header
from trailgate.trail.format.tokens import FRAME
from trailgate.trail.records.record import decode_record
from trailgate.trail.writing.writer import encode

RECORDS, FEW = 1_000_000, 200_000
LOOPED = 10_000  # records of the loop


def run(*, quick: bool) -> list[Figure]:
    """Return the check's rate beside its yardsticks of the same run; one core."""
    body = encode(sample(FEW if quick else RECORDS)).body
    few = encode(sample(LOOPED)).body.to_pybytes()
    header = encode_header(FileHeader(TrailInfo()))
    with tempfile.TemporaryDirectory() as folder:
        prefix = Path(folder) / "ot"
        Path(f"{prefix}.def").write_bytes(write_sourcedefs(DEFINITIONS))
        Path(f"{prefix}000000000").write_bytes(header + body.to_pybytes())
        report = check_trail(str(prefix))
        assert report.whole, report.findings
        rate = body.size / fastest(lambda: check_trail(str(prefix)), 3) / 1e6
    looped = len(few) / fastest(lambda: _loop(few), 3) / 1e6
    data = octets(body)
    copied = body.size / fastest(data.copy, 3) / 1e6
    return [
        Figure(
            name="check",
            figure=rate,
            unit="MB/s",
            yardstick="record by record",
            yardstick_figure=looped,
            target=Target(300, of="figure"),
        ),
        Figure("check", rate, "MB/s", "memory copy", copied),
    ]


def _loop(data: bytes) -> int:
    """Check records one by one, and return how many transactions there are."""
    raw = octets(data)
    place = transactions = 0
    is_open = False
    while place < len(data):
        record = decode_record(raw, place)
        columns = record.data or b""
        at = 0
        while at < len(columns):
            at += FRAME + record.order.number(columns[at + 2 : at + FRAME])
        assert at == len(columns)
        begins = record.trans_ind in (0, 3)
        assert begins != is_open
        assert DEFINITIONS.get(record.name or "") is not None
        transactions += begins
        is_open = record.trans_ind < 2
        place += record.length
    return transactions
