"""The worked examples: every case file runs both ways, and through the oracle."""

from __future__ import annotations

import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cobol.items import item, options_of
from oracles import cobol_naive as naive
from trailgate.cobol.copybook.layouts import CopybookField, Endian, FloatFormat, SignRules, Usage
from trailgate.cobol.values.codec import ValueOptions
from trailgate.cobol.values.codecs import CODECS, decoder, encoder, explainer

CASES = Path(__file__).parent / "cases"
PYTHON_PAGES = ("cp037", "ascii", "utf-8")


def cases() -> list[Any]:
    found = sorted(CASES.glob("*.toml"))
    return [pytest.param(tomllib.loads(path.read_text()), id=path.stem) for path in found]


def bound(case: dict[str, Any]) -> tuple[CopybookField, ValueOptions]:
    options = options_of(case.get("dialect", {}), case.get("options", {}))
    return item(case["item"], options), options


def covered(case: dict[str, Any]) -> bool:
    """Return whether the oracle reads such a field: it knows nothing of printing and of options."""
    field, options = bound(case)
    text = field.usage in (Usage.TEXT, Usage.NATIONAL, Usage.UTF8)
    plain = options.dialect.code_page in PYTHON_PAGES and options.trim is True
    by_option = "value" not in case and "error" not in case  # NULL
    known = field.usage not in (Usage.EDITED, Usage.DBCS, Usage.RAW)
    return known and not by_option and not field.blank_when_zero and (plain or not text)


def value_of(case: dict[str, Any], kind: pa.DataType) -> Any:
    text = case.get("value")
    if text is None or pa.types.is_string(kind):
        return text
    if pa.types.is_floating(kind):
        return float(text)
    return Decimal(text) if pa.types.is_decimal(kind) else int(text)


@pytest.mark.parametrize("case", cases())
def test_a_value_reads_and_writes_as_its_case(case: dict[str, Any]) -> None:
    field, options = bound(case)
    raw = bytes.fromhex(case["bytes"])
    assert field.size == len(raw)

    found = decoder(field, options)(np.frombuffer(raw * 3, np.uint8).reshape(3, len(raw)))

    if "error" in case:
        assert found.bad is not None
        assert found.bad.all()
        assert found.values.null_count == 3
        assert case["error"] in ". ".join(explainer(field, options)(raw))
        return
    value = value_of(case, found.values.type)
    assert found.bad is None
    assert found.values.equals(pa.array([value] * 3, found.values.type))
    if case.get("direction") != "read":
        assert encoder(field, options)(found.values).tobytes() == raw * 3


@pytest.mark.parametrize("case", [case for case in cases() if covered(case.values[0])])
def test_the_oracle_reads_the_same(case: dict[str, Any]) -> None:
    field, options = bound(case)
    how = reading(field, options)
    raw = bytes.fromhex(case["bytes"])
    if "error" in case:
        with pytest.raises(ValueError):  # noqa: PT011 - UnicodeDecodeError is one too
            naive.read_value(field, raw, how)
    else:
        found = naive.read_value(field, raw, how)
        assert found == (case["value"] if isinstance(found, str) else type(found)(case["value"]))


def reading(field: CopybookField, options: ValueOptions) -> naive.Reading:
    native = field.usage in (Usage.NATIVE, Usage.NATIVE_SHORT, Usage.FLOAT, Usage.DOUBLE)
    order = options.dialect.native if native else options.dialect.binary
    return naive.Reading(
        page=options.dialect.code_page,
        little=order is Endian.LITTLE,
        strict=options.dialect.signs is SignRules.STRICT,
        ibm_floats=options.dialect.floats is FloatFormat.IBM,
        blank=options.blank.value,
        low_values=options.low_values.value,
        padding=options.padding.value,
    )


def test_every_usage_has_a_codec() -> None:
    assert set(CODECS) == set(Usage) - {Usage.GROUP}


@pytest.mark.parametrize(
    ("clauses", "size"),
    [
        ("PIC S9(2) COMP", 2),
        ("PIC S9(7)V9(2) COMP-3", 5),
        ("PIC S9(4)V9(2) COMP-3", 4),
        ("PIC S9(15)V COMP-3", 8),
        ("PIC S9(9)V99 BINARY", 8),
        ("PIC S9(9) SIGN LEADING SEPARATE", 10),
        ("PIC +9(8)", 9),
        ("PIC Z(6)VZZ-", 9),
        ("PIC 9(6).99-", 10),
    ],
)
def test_a_field_of_published_size_is_written_in_that_size(clauses: str, size: int) -> None:
    field = item(clauses)

    written = encoder(field)(pa.array([7]))

    assert written.shape == (1, size)
    assert [Decimal(v) for v in decoder(field)(written).values.to_pylist()] == [7]
