"""A field from one clause of a copybook, and options from the words of a case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trailgate.cobol.copybook.layouts import (
    BinarySizes,
    Dialect,
    Endian,
    Field,
    FloatFormat,
    Layout,
    Signs,
)
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.cobol.values.codec import (
    Blank,
    Integers,
    Numbers,
    Padding,
    RawForm,
    Trim,
    ValueOptions,
)

KINDS = {
    "signs": Signs,
    "floats": FloatFormat,
    "binary": Endian,
    "native": Endian,
    "national": Endian,
    "binary_sizes": BinarySizes,
    "blank": Blank,
    "low_values": Blank,
    "padding": Padding,
    "integers": Integers,
    "numbers": Numbers,
    "raw": RawForm,
}


TRIMS = {one.value: one for one in Trim}


def typed(words: Mapping[str, Any]) -> dict[str, Any]:
    kinds = {name: KINDS[name](word) if name in KINDS else word for name, word in words.items()}
    return kinds | ({"trim": TRIMS.get(words["trim"], words["trim"])} if "trim" in words else {})


def options_of(dialect: Mapping[str, Any], options: Mapping[str, Any]) -> ValueOptions:
    return ValueOptions(dialect=Dialect(**typed(dialect)), **typed(options))


def layout_of(text: str, options: ValueOptions | None = None) -> Layout:
    dialect = options.dialect if options else Dialect()
    (layout,) = read_copybook(text, dialect=dialect)
    return layout


def item(clauses: str, options: ValueOptions | None = None) -> Field:
    return layout_of(f"01 R.\n   05 X {clauses}.\n", options).root.children[0]
