"""A field from one clause of a copybook, and options from the words of a case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trailgate.cobol.copybook.layouts import (
    BinarySizes,
    CobolDialect,
    CopybookField,
    CopybookLayout,
    Endian,
    FloatFormat,
    SignRules,
)
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.cobol.values.codec import (
    BlankPolicy,
    IntegerRepresentation,
    NumberRepresentation,
    PaddingPolicy,
    RawRepresentation,
    TrimSide,
    ValueOptions,
)

KINDS = {
    "signs": SignRules,
    "floats": FloatFormat,
    "binary": Endian,
    "native": Endian,
    "national": Endian,
    "binary_sizes": BinarySizes,
    "blank": BlankPolicy,
    "low_values": BlankPolicy,
    "padding": PaddingPolicy,
    "integers": IntegerRepresentation,
    "numbers": NumberRepresentation,
    "raw": RawRepresentation,
}


TRIMS = {one.value: one for one in TrimSide}


def typed(words: Mapping[str, Any]) -> dict[str, Any]:
    kinds = {name: KINDS[name](word) if name in KINDS else word for name, word in words.items()}
    return kinds | ({"trim": TRIMS.get(words["trim"], words["trim"])} if "trim" in words else {})


def options_of(dialect: Mapping[str, Any], options: Mapping[str, Any]) -> ValueOptions:
    return ValueOptions(dialect=CobolDialect(**typed(dialect)), **typed(options))


def layout_of(text: str, options: ValueOptions | None = None) -> CopybookLayout:
    dialect = options.dialect if options else CobolDialect()
    (layout,) = read_copybook(text, dialect=dialect)
    return layout


def item(clauses: str, options: ValueOptions | None = None) -> CopybookField:
    return layout_of(f"01 R.\n   05 X {clauses}.\n", options).root.children[0]
