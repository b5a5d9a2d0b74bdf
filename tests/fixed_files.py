"""Definitions that fixed-width tests name, held in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trailgate.capture.capture import Capture
from trailgate.capture.formats import parser_of
from trailgate.cobol.copybook.layouts import Dialect, Layout
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.definitions.defgen import read_sourcedefs
from trailgate.expressions.selection import CaptureRules
from trailgate.messages.properties import parse_properties
from trailgate.model.tables import Definitions

ALL_COLUMNS = CaptureRules(compress_updates=False, compress_deletes=False)


@dataclass(frozen=True, slots=True)
class HeldFiles:
    """Files by their names."""

    held: Mapping[str, str]

    def chosen(self, path: str) -> str:
        return path

    def sourcedefs(self, path: str) -> Definitions:
        return read_sourcedefs(self.held[path].encode(), source=path)

    def copybook(self, path: str, dialect: Dialect) -> list[Layout]:
        return read_copybook(self.held[path], source=path, dialect=dialect, member=self.held.get)


def fixed_capture(
    properties: str, files: Mapping[str, str], rules: CaptureRules = ALL_COLUMNS, now: int = 0
) -> Capture:
    """Return a capture of fixed-width messages."""
    parsed = parse_properties(f"parser.type=fixed\n{properties}".encode(), "a.properties")
    options, definitions = parser_of(parsed).setup(parsed, HeldFiles(files))
    capture = Capture(options, definitions, rules, now)
    capture.check()
    return capture
