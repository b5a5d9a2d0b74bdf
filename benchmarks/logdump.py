"""How fast Logdump's commands go through a trail file, beside a memory copy and a naive loop."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from benchmarks.report import Figure, Target, fastest
from benchmarks.trail_codec import sample

from trailgate.logdump.conversation import COMMANDS
from trailgate.logdump.results import CountResult, FailureResult
from trailgate.logdump.session import LogdumpSession
from trailgate.trail.format.file_header import FileHeader, encode_header
from trailgate.trail.writing.writer import encode

RECORDS: Final = 200_000
REPEATS: Final = 6
QUICK_REPEATS: Final = 1
RUNS: Final = 3
NAIVE_BYTES: Final = 4 << 20
MANY: Final = ("IOTYPE 5", "RECLEN > 100", "STARTTIME 2023-01-01", "FILENAME SALES.*")


def run(*, quick: bool) -> list[Figure]:
    """Return what COUNT, filters and scans reach in MB/s on one file."""
    body = encode(sample(RECORDS)).body.to_pybytes()
    header = encode_header(FileHeader())
    repeats = QUICK_REPEATS if quick else REPEATS
    with TemporaryDirectory() as folder:
        path = Path(folder) / "bm000000000"
        with path.open("wb") as file:
            file.write(header)
            for _ in range(repeats):
                file.write(body)
        return _figures(path, len(body) * repeats, RECORDS * repeats)


def _figures(path: Path, size: int, records: int) -> list[Figure]:
    data = np.fromfile(path, np.uint8)
    copied = size / fastest(data.copy, RUNS) / 1e6
    few = data[:NAIVE_BYTES].tobytes()
    naive = NAIVE_BYTES / fastest(lambda: naive_count(few), RUNS) / 1e6

    def rate(*commands: str) -> float:
        return size / fastest(lambda: _spoken(path, commands, records), RUNS) / 1e6

    filters = tuple(f"FILTER INCLUDE {option}" for option in MANY)
    plain, beside = ("memory copy", copied), ("naive loop", naive)
    counted = rate("COUNT")
    return [
        _figure("COUNT", counted, plain, Target(300, of="figure")),
        _figure("COUNT", counted, beside, Target(1.5)),
        _figure("COUNT DETAIL", rate("COUNT DETAIL"), plain),
        _figure("COUNT, four filters", rate(*filters, "COUNT"), plain),
        _figure("COUNT, FILTER CSN", rate("FILTER CSN >= 0", "COUNT"), plain),
        _figure("COUNT, FILTER STRING", rate('FILTER STRING "not there"', "COUNT"), plain),
        _figure("SCANFORTYPE", rate("SFT DDLOP"), plain),
    ]


def _figure(
    name: str, figure: float, beside: tuple[str, float], target: Target | None = None
) -> Figure:
    return Figure(name, figure, "MB/s", *beside, target)


def _spoken(path: Path, commands: tuple[str, ...], records: int) -> None:
    session = LogdumpSession(COMMANDS, lambda: datetime.now(UTC))
    for line in (f"OPEN {path}", *commands):
        for result in session.run(line):
            assert not isinstance(result, FailureResult), result.error
            if isinstance(result, CountResult):
                assert result.total.records + result.suppressed == records
    session.close()


def naive_count(raw: bytes) -> dict[int, tuple[int, int]]:
    """Count records and data bytes of each type, a record at a time."""
    found: dict[int, tuple[int, int]] = {}
    place = int.from_bytes(raw[2:4], "big")
    while place + 42 <= len(raw):
        length = int.from_bytes(raw[place + 2 : place + 4], "big")
        trailer = raw[place + length - 4 : place + length]
        if raw[place] != 0x47 or trailer != b"\x5a" + raw[place + 1 : place + 4]:
            break
        data = int.from_bytes(raw[place + 12 : place + 14], "big")
        count, total = found.get(raw[place + 14], (0, 0))
        found[raw[place + 14]] = (count + 1, total + data)
        place += length
    return found
