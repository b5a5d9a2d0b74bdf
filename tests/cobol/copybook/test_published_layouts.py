"""The layouts that the cb2xml project published: positions and storage lengths agree with ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest

import shared_data
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.errors import DefinitionError

PUBLISHED: Final = shared_data.folder("cb2xml")
if shared_data.missing("cb2xml"):
    pytest.skip(shared_data.missing("cb2xml"), allow_module_level=True)

Item = tuple[int, str, int, int]
LAYOUTS: Final = sorted((PUBLISHED / "xmlCopybook").iterdir())
# Where theirs differ: which of our items, and why ours stand.
THEIRS_DIFFER: Final = {
    "cb2xml_Output109": "P takes no byte in a DISPLAY item; theirs counts it in one of two pictures",
    "cb2xml_Output201": "entries without a period at a line's end; theirs reads three as one item",
    "cb2xml_Output204": "COMP-6 has no sign nibble: four digits are two bytes, theirs has COMP-3's",
}
REFUSED: Final = {
    "cb2xml_Output101": "a group without an item in it, which is no COBOL; theirs has no bytes",
    "xmlCpyBitOfEverything": "the same group",
}
UNREADABLE: Final = {"xmlCpyMsg": "its own text has a literal that is not closed"}


def copybook_of(layout: Path) -> Path:
    numbered = re.fullmatch(r"cb2xml_Output(\d+)a?", layout.stem)
    wanted = f"cbl2xml_Test{numbered[1]}" if numbered else f"c{layout.stem[4:]}"
    for path in (PUBLISHED / "cobolCopybook").iterdir():
        if path.stem.casefold() == wanted.casefold():
            return path
    raise LookupError(wanted)


def theirs(layout: Path) -> list[Item]:
    raw = layout.read_bytes()
    # Six files are EBCDIC, though they say otherwise.
    text = raw if raw[:1] == b"<" else re.sub(r"<\?xml.*?\?>", "", raw.decode("cp037"))
    return list(_items(ET.fromstring(text)))


def _items(element: ET.Element) -> Iterator[Item]:
    for child in element:
        tag = child.tag.rpartition("}")[2]
        if tag == "item" and child.attrib["level"] not in ("66", "88"):
            name = child.attrib["name"].upper()
            place, size = int(child.attrib["position"]), int(child.attrib["storage-length"])
            yield int(child.attrib["level"]), "" if name == "FILLER" else name, place, size
        if tag in ("item", "copybook"):
            yield from _items(child)


def ours(copybook: Path, outermost: int) -> list[Item]:
    text = copybook.read_text(encoding="utf-8", errors="replace")
    found = []
    for layout in read_copybook(text, source=copybook.name):
        for field in layout.root.walk():
            if field is layout.root and field.level < outermost:
                continue  # the record around items that have none
            name = "" if field.filler else field.name.upper()
            found.append((field.level, name, field.offset + 1, field.size))
    return found


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda path: str(path.stem))
def test_a_published_layout_agrees(layout: Path) -> None:
    published = theirs(layout)
    if layout.stem in REFUSED:
        with pytest.raises(DefinitionError, match="has neither a picture nor items"):
            ours(copybook_of(layout), published[0][0])
        return

    found = ours(copybook_of(layout), published[0][0])

    assert (found != published) == (layout.stem in THEIRS_DIFFER)
