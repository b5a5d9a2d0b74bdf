"""What an operation of XML carries into a trail, read column by column from the manual's words: slow, and short enough to check by eye.

A message is ``<u t='U'><column name='C1'><beforevalue>..</beforevalue><aftervalue>..</aftervalue></column>...</u>``.
"""

from __future__ import annotations

from typing import NamedTuple
from xml.etree import ElementTree as ET

Values = dict[str, str | None]  # a column that is not there is missing; None is NULL


class Operation(NamedTuple):
    """An operation as a trail has it."""

    op_type: str
    before: Values
    after: Values


def operation(
    text: str, keys: set[str], *, get_update_befores: bool, no_compress_updates: bool
) -> Operation:
    """Return what a message gives; deletes and inserts have all columns."""
    root = ET.fromstring(text)
    kind = root.attrib["t"]
    before, after = _values(root, "beforevalue"), _values(root, "aftervalue")
    if kind == "I":
        # "An insert has the after values of all columns": what is absent is NULL.
        names = [column.attrib["name"] for column in root if not _is_marked(column, "aftervalue")]
        return Operation("I", {}, {name: after.get(name) for name in names})
    if kind == "D":
        return Operation("D", before, {})
    # "The before value of the column ... is optional for updates": no column has one that is absent.
    compared = before.keys() & after.keys()
    same = {name for name in compared if before[name] == after[name]}
    kept = set(before) | set(after)
    if not no_compress_updates:
        # "The after values of keys are written. The after values of columns that have changed are written if the before values are present
        # and can be compared. If before values are not present then all columns are written."
        kept -= same - keys
    moved = any(key in compared and key not in same for key in keys)
    shown = kept if get_update_befores else keys if moved else set()
    return Operation(
        "K" if moved else "U",
        {name: value for name, value in before.items() if name in shown},
        {name: value for name, value in after.items() if name in kept},
    )


def _values(root: ET.Element, image: str) -> Values:
    """Return the values of an image that are there: an element without content is NULL, and so is one that isnull marks."""
    found: Values = {}
    for column in root:
        value = column.find(image)
        if value is None or _is_marked(column, image):
            continue
        found[column.attrib["name"]] = None if "isnull" in value.attrib else value.text
    return found


def _is_marked(column: ET.Element, image: str) -> bool:
    """Return whether ismissing marks a value."""
    return column.find(f"{image}/missing") is not None
