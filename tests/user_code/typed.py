"""What a user writes, checked by mypy as it checks a user's code: every wrong call below is an error that it finds."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import trailgate


def capture(folder: Path) -> int:
    summary = trailgate.capture_files(
        folder / "messages", folder / "dirdat/ot", folder / "shop.properties", on_error="quarantine"
    )
    assert_type(summary, trailgate.CaptureSummary)
    assert_type(summary.files, tuple[str, ...])
    assert_type(trailgate.__version__, str)
    return summary.operations


def read(prefix: Path) -> None:
    trailgate.read_trail(prefix, tables=["HR.*", "SALES.ORD?"], limit=10)
    trailgate.read_trail(prefix, table="HR.EMPLOYEES", definitions=prefix.with_suffix(".def"))
    trailgate.read_trail(prefix, records="all", from_position="0" * 20)
    trailgate.read_trail(prefix, tabel="HR.EMPLOYEES")  # type: ignore[call-arg]
    trailgate.read_trail(prefix, records="some")  # type: ignore[arg-type]
    trailgate.read_trail(prefix, limit="10")  # type: ignore[arg-type]
    assert_type(trailgate.find_trail(prefix), trailgate.TrailFiles)


def records(data: Path) -> None:
    trailgate.read_records(data, "account.cpy", columns=("A", "B"), shape="flat", trim=False)
    trailgate.read_records(data, copybook_text="01 A PIC X.", code_pages={"A": "1140"})
    trailgate.read_records(data, "account.cpy", shape="round")  # type: ignore[arg-type]
    trailgate.read_records(data, "account.cpy", record_lenght=80)  # type: ignore[call-arg]


def parse(properties: Path) -> list[str]:
    capture = trailgate.load_capture(properties)
    assert_type(capture, trailgate.Capture)
    parsed = capture.parse(trailgate.messages_from([b"I,A.B,1", "I,A.B,2"]))
    assert_type(parsed, trailgate.Parsed)
    with trailgate.TrailAppender("dirdat/lt", capture.definitions) as trail:
        assert_type(trail.recovered.source_position, str | None)
        trail.append(parsed.batch)
        trail.commit("1")
    try:
        capture.check()
    except trailgate.DefinitionError as error:
        assert_type(error.where.table, str | None)
    return [str(problem.error) for problem in parsed.problems]
