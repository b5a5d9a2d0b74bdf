"""Captures of XML messages by rules, with tables held in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fixed_files import ALL_COLUMNS, HeldFiles
from message_cases import NOW
from trailgate.capture.capture import Capture
from trailgate.capture.formats import parser_of
from trailgate.expressions.selection import CaptureRules
from trailgate.messages.properties import parse_properties

DEFINITIONS: Final = Path(__file__).parent / "formats" / "delimited" / "cases" / "shop.def"


def xml_capture(rules: str, captured: CaptureRules = ALL_COLUMNS) -> Capture:
    """Return a capture of XML messages by rules, of the tables of ``shop.def``."""
    text = f"parser.type=xml\nxml.sourcedefs=shop.def\n{rules}"
    parsed = parse_properties(text.encode(), "a.properties")
    files = HeldFiles({"shop.def": DEFINITIONS.read_text()})
    options, definitions = parser_of(parsed).setup(parsed, files)
    capture = Capture(options, definitions, captured, NOW)
    capture.check()
    return capture
