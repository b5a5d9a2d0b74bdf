"""Each option of values changes what it concerns, whatever the others are, or is refused; nothing else changes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cobol.items import layout_of, options_of
from laws import examples
from trailgate.cobol.records.decoding import RecordDecoder
from trailgate.cobol.records.record_bytes import records_of_length
from trailgate.cobol.records.record_options import BadFieldPolicy, RecordOptions
from trailgate.errors import OptionError

# Each item with bytes of which some are read differently under each option that concerns it.
PADDED = (b"\0\0\0", b"\x40\x40\xf1", b"  1")
ITEMS: Mapping[str, tuple[str, tuple[bytes, ...]]] = {
    "text": ("PIC X(3)", (b"\xc1\x40\x40", b"AB\x20", b"AB\x40", b"\x40\xc1\xc2", b" A ")),
    "national": ("PIC N(2)", (b"\0A\0 ", b"A\0 \0")),
    "zoned": ("PIC 9(3)", (b"\xf1\xf2\xf3", b"123", b"\x40\x40\x40", b"\x20\x20\x20", *PADDED)),
    "signed zoned": ("PIC S9(2)", (b"\xf1\xb2", b"\xf1\xc2", b"1q", b"\x40\x40", b"\x20\x20")),
    "packed": ("PIC S9(3) COMP-3", (b"\x12\x3c", b"\x12\x3b", b"\x40\x40", b"\x20\x20")),
    "unsigned packed": ("PIC 9(3) COMP-3", (b"\x12\x3f", b"\x12\x3a")),
    "COMP": ("PIC S9(2) COMP", (b"\x00\x01", b"\x01\x00", b"\x70\x70")),
    "COMP-5": ("PIC S9(4) COMP-5", (b"\x00\x01", b"\x01\x00")),
    "COMP-1": ("COMP-1", (b"\x42\x64\x00\x00", b"\x00\x00\x64\x42")),
    "COMP-2": ("COMP-2", (b"\x42\x64" + bytes(6), bytes(6) + b"\x64\x42")),
}
DEFAULTS = {
    "code_page": "cp037",
    "binary": "big",
    "native": "big",
    "national": "big",
    "floats": "ibm",
    "signs": "strict",
    "trim": True,
    "blank": "error",
    "low_values": "error",
    "padding": "error",
    "integers": "int64",
    "numbers": "value",
}
OTHERS: Mapping[str, tuple[Any, ...]] = {
    "code_page": ("ascii",),
    "binary": ("little",),
    "native": ("little",),
    "national": ("little",),
    "floats": ("ieee",),
    "signs": ("lenient",),
    "trim": (False, "left", "right", "both"),
    "blank": ("null", "zero"),
    "low_values": ("null", "zero"),
    "padding": ("left", "zeros", "trim"),
    "integers": ("decimal", "text"),
    "numbers": ("text",),
}
WHOLE = {"zoned", "signed zoned", "packed", "unsigned packed", "COMP", "COMP-5"}
# As docs/copybook.md states. Integers as text concern those without a sign.
CONCERNS: Mapping[tuple[str, Any], set[str]] = {
    # Of packed numbers it states which bytes are blanks.
    ("code_page", "ascii"): {"text", "zoned", "signed zoned", "packed"},
    ("binary", "little"): {"COMP"},
    ("native", "little"): {"COMP-5", "COMP-1", "COMP-2"},
    ("national", "little"): {"national"},
    ("floats", "ieee"): {"COMP-1", "COMP-2"},
    ("signs", "lenient"): {"signed zoned", "packed", "unsigned packed", "COMP"},
    ("trim", False): {"text", "national"},
    ("trim", "left"): {"text", "national"},
    ("trim", "right"): set(),
    ("trim", "both"): {"text"},
    ("blank", "null"): {"zoned", "signed zoned", "packed"},
    ("blank", "zero"): {"zoned", "signed zoned", "packed"},
    ("low_values", "null"): {"zoned"},
    ("low_values", "zero"): {"zoned"},
    ("padding", "left"): {"zoned"},
    ("padding", "zeros"): {"zoned"},
    ("padding", "trim"): {"zoned"},
    ("integers", "decimal"): WHOLE,
    ("integers", "text"): {"zoned", "unsigned packed"},
    ("numbers", "text"): WHOLE,
}
DIALECT = ("code_page", "binary", "native", "floats", "signs")


def reading(item: str, chosen: Mapping[str, Any]) -> object:
    """Return all that is read of an item's bytes, or the error that refuses the options."""
    return read_by(item, tuple(chosen.items()))


@cache
def read_by(item: str, named: tuple[tuple[str, Any], ...]) -> object:
    chosen = dict(named)
    clauses, raws = ITEMS[item]
    values = options_of(
        {name: chosen[name] for name in DIALECT},
        {name: value for name, value in chosen.items() if name not in DIALECT},
    )
    layout = layout_of(f"01 R.\n   05 X {clauses}.\n", values)
    try:
        decoder = RecordDecoder(layout, RecordOptions(values, errors=BadFieldPolicy.COLUMN))
    except OptionError as error:
        return error
    found = decoder.decode(records_of_length(b"".join(raws), len(raws[0])))
    return str(found.schema), str(found.to_pylist())


@settings(max_examples=examples(8), deadline=None)
@given(st.fixed_dictionaries({n: st.sampled_from((DEFAULTS[n], *OTHERS[n])) for n in DEFAULTS}))
def test_an_option_changes_what_it_concerns_or_is_refused(chosen: dict[str, Any]) -> None:
    for (name, value), concerned in CONCERNS.items():
        for item in ITEMS:
            without = reading(item, {**chosen, name: DEFAULTS[name]})
            with_it = reading(item, {**chosen, name: value})
            refused = isinstance(with_it, OptionError) or isinstance(without, OptionError)
            assert refused or (with_it != without) == (item in concerned), (name, item)


def test_every_other_value_of_an_option_is_tried() -> None:
    assert {(name, value) for name, values in OTHERS.items() for value in values} == set(CONCERNS)
