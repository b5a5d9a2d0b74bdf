"""``trailgate assumptions``: list the assumptions about formats, with the reason, the place in the code, and the tests."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from importlib import resources
from typing import Annotated, Final, NamedTuple

from trailgate.errors import OptionError
from trailgate.terminal import output
from trailgate.terminal.flags import JsonLines, takes

_HEAD: Final = """\
# What we assume

Public documents and dumps leave some things open. Each of them has one place in the code, one row in `src/trailgate/reference/assumptions.toml`, and one row
on this page, which `trailgate assumptions --markdown` prints. A source is a section of the [reference](reference/README.md). Trail cases marked `assumed = true` and tests of
assumptions carry the pytest mark `assumed`: `pytest -m assumed` runs only these.
"""
_COLUMNS: Final = ("name", "assumption", "why", "source", "where", "tests")


class Assumption(NamedTuple):
    """One assumption about a format: a row of ``reference/assumptions.toml``, where the fields are explained."""

    name: str
    area: str
    statement: str
    why: str
    source: str
    where: tuple[str, ...]
    tests: tuple[str, ...]


def read_assumptions() -> tuple[Assumption, ...]:
    """Read all assumptions, in the order of the page."""
    text = resources.files("trailgate").joinpath("reference/assumptions.toml").read_text("utf-8")
    return tuple(
        Assumption(
            **{"source": "", **row, "where": tuple(row["where"]), "tests": tuple(row["tests"])}
        )
        for row in tomllib.loads(text)["assumptions"]
    )


@takes
def command(
    *,
    as_json: JsonLines = False,
    markdown: Annotated[bool, "Print the page docs/assumptions.md."] = False,
) -> None:
    """List the assumptions about formats."""
    if as_json and markdown:
        raise OptionError("--json and --markdown exclude each other")
    with output.quiet_pipe():
        if as_json:
            for row in read_assumptions():
                print(json.dumps(row._asdict(), ensure_ascii=False))
        elif markdown:
            print(as_markdown(), end="")
        else:
            _print()


def as_markdown() -> str:
    """Format the assumptions as the page docs/assumptions.md."""
    parts = [_HEAD]
    for area, rows in _by_area():
        head = [_line(_COLUMNS), _line("---" for _ in _COLUMNS)]
        parts.append("\n".join([f"## {area}", "", *head, *map(_markdown_row, rows)]) + "\n")
    return "\n".join(parts)


def _by_area() -> list[tuple[str, list[Assumption]]]:
    rows = read_assumptions()
    areas = dict.fromkeys(row.area for row in rows)
    return [(area, [row for row in rows if row.area == area]) for area in areas]


def _markdown_row(row: Assumption) -> str:
    where = ", ".join(f"`{place}`" for place in row.where)
    tests = ", ".join(f"`{name}`" for name in row.tests)
    return _line([row.name, row.statement, row.why, row.source, where, tests])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _print() -> None:
    for area, rows in _by_area():
        output.say(area, "bold")
        for row in rows:
            why = f"{row.why} ({row.source})" if row.source else row.why
            output.say(f"{row.name}: {row.statement}; {why}", indent="    ")
            output.say(f"    {', '.join((*row.where, *row.tests))}", "dim", indent="    ")
