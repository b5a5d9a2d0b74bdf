"""A working folder of a capture: properties, messages and the trails made of them."""

from __future__ import annotations

from pathlib import Path

from trailgate.jobs.capture.job import plan_capture, run_local
from trailgate.jobs.capture.loading import load_capture
from trailgate.jobs.capture.plan import CaptureJob, CaptureOptions
from trailgate.jobs.capture.summary import CaptureSummary
from trailgate.storage.reading.trails import read_trail
from trailgate.trail.format.file_header import decode_header

DEFINITIONS = """\
Definition for table MY.ORDERS
Record length: 76
Syskey: 0
Columns: 2
ID    64   4    0  0  0 1 0   4   4  0 0 0 0 0 1  0 1 0
NAME  64  60   10  0  0 1 0  60  60  0 0 0 0 0 1  0 0 0
End of definition
"""
PROPERTIES = """\
parser.type=delim
delim.sourcedefs={sourcedefs}
delim.header=optype,table,ts{more}
delim.optype=optype
delim.timestamp=ts
delim.timestamp.format=YYYY-MM-DD
delim.schemaandtable=table
delim.seqid=*seqid
delim.txid=*txid
delim.fielddelim=,
"""
QUARANTINE = CaptureOptions(on_error="quarantine")


class Place:
    """A working folder: properties, messages and a trail."""

    def __init__(self, folder: Path, *, spanning: bool = False) -> None:
        self.folder = folder
        (folder / "orders.def").write_text(DEFINITIONS)
        text = PROPERTIES.format(sourcedefs=folder / "orders.def", more=",ind" if spanning else "")
        text += "delim.txind=ind\n" if spanning else ""
        (folder / "p.properties").write_text(text)
        self.capture = load_capture(folder / "p.properties")
        self.messages = folder / "messages"
        self.messages.mkdir()

    def write(self, *bodies: str) -> None:
        for number, body in enumerate(bodies):
            (self.messages / f"m{number:04}").write_text(body)

    def job(
        self, target: str, options: CaptureOptions | None = None, source: Path | None = None
    ) -> CaptureJob:
        return plan_capture(self.capture, source or self.messages, self.folder / target, options)

    def run(
        self, target: str, options: CaptureOptions | None = None, source: Path | None = None
    ) -> CaptureSummary:
        return run_local(self.job(target, options, source))

    def names(self, target: str) -> list[str]:
        rows = [
            row for batch in read_trail(self.folder / target) for row in batch["after"].to_pylist()
        ]
        return [dict(row)["NAME"] for row in rows]

    def body(self, target: str) -> bytes:
        """Return the trail's records, whichever files they are in."""
        joined = b""
        for path in self.files(target):
            data = path.read_bytes()
            joined += data[decode_header(data)[1] :]
        return joined

    def files(self, target: str) -> list[Path]:
        return sorted(self.folder.glob(f"{target}000*"))

    def contents(self, target: str) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.glob(f"{target}*")}


def row(number: int, indicator: str = "") -> str:
    more = f",{indicator}" if indicator else ""
    return f"I,MY.ORDERS,2026-01-01{more},{number},name {number}\n"
