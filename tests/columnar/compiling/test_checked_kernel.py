"""Kernels: compiled at the first call, and called within their contract alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import GenericAlias
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from trailgate.arrays import Longs, Octets
from trailgate.columnar.compiling import (
    CheckedKernel,
    checked_kernel,
    inner,
    kernel,
    numba_compiler,
)
from trailgate.columnar.compiling.inner_functions import fingerprint

SOURCE = str(Path(__file__).parents[3] / "src")


@kernel(writes=("places",))
def find_byte(data: Octets, byte: int, places: Longs) -> int:
    """Write where a byte is; return how often."""
    count = 0
    for place in range(len(data)):
        if data[place] == byte:
            places[count] = place
            count += 1
    return count


class Spans(NamedTuple):
    starts: Longs
    ends: Longs
    most: int


class Sizes(NamedTuple):
    sizes: Longs
    longest: Octets


@inner
def span_size(spans: Spans, row: int) -> int:
    """Return the size of a span, at most `most`."""
    return int(min(spans.ends[row] - spans.starts[row], spans.most))


@kernel(writes=("written.sizes",))
def measure_spans(spans: Spans, least: int, written: Sizes) -> int:
    """Write the size of each span; return how many are `least` or more."""
    count = 0
    narrowed = Spans(spans.starts, spans.ends, spans.most - len(written.longest))
    for row in range(len(spans.starts)):
        written.sizes[row] = span_size(narrowed, row)
        count += written.sizes[row] >= least
    return count


def spans_and_sizes() -> tuple[Spans, Sizes]:
    starts, ends = np.array([0, 3, 9]), np.array([2, 9, 19])
    return Spans(starts, ends, 8), Sizes(np.zeros(3, np.int64), np.zeros(1, np.uint8))


def test_a_group_of_arrays_is_taken_like_its_arrays() -> None:
    """Interpreted and compiled, as groups and one by one: spans of 2, 6 and 10 bytes, of which at most 8 - 1 count."""
    compiled_at_once = CheckedKernel(measure_spans.function, measure_spans.writes)
    compiled_at_once.interpreted = checked_kernel.INTERPRETED + 1
    for tried in (measure_spans, compiled_at_once):
        spans, sizes = spans_and_sizes()
        assert tried(spans, 6, sizes) == 2
        assert sizes.sizes.tolist() == [2, 6, 7]
        assert tried(*spans, 7, *sizes) == 1
    assert list(measure_spans.contract) == [
        "spans.starts", "spans.ends", "spans.most", "least", "written.sizes", "written.longest",
    ]  # fmt: skip
    assert [name for name, row in measure_spans.contract.items() if getattr(row, "writes", 0)] == [
        "written.sizes"
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"ends": np.zeros(3, np.int32)}, "spans.ends: expected an array of int64, got one of int32"),
        ({"starts": np.zeros(6, np.int64)[::2]}, "spans.starts: expected one dimension without gaps"),
        ({"most": "8"}, "spans.most: expected int, got str"),
        ({"sizes": np.frombuffer(bytes(24), np.int64)}, "written.sizes: .* it is read-only"),
    ],
)  # fmt: skip
def test_each_array_of_a_group_is_checked(arguments: dict[str, Any], problem: str) -> None:
    compiled_at_once = CheckedKernel(measure_spans.function, measure_spans.writes)
    compiled_at_once.interpreted = checked_kernel.INTERPRETED + 1
    spans, sizes = (
        group._replace(**{name: arguments[name] for name in group._fields if name in arguments})
        for group in spans_and_sizes()
    )
    for tried in (measure_spans, compiled_at_once):
        with pytest.raises(TypeError, match=problem):
            tried(spans, 6, sizes)
        with pytest.raises(TypeError, match="takes 6 arguments"):
            tried(spans, 6)


def test_an_array_of_a_group_is_written_only_if_the_kernel_names_it() -> None:
    def overwrite(spans: Spans) -> None:
        spans.ends[0] = 1

    spans, _ = spans_and_sizes()
    with pytest.raises(ValueError, match="read-only"):
        CheckedKernel(overwrite, ("spans.starts",))(spans)
    for writes in (("spans",), ("spans.ends",)):
        spans.ends[0] = 2
        CheckedKernel(overwrite, writes)(spans)
        assert spans.ends[0] == 1
    with pytest.raises(AssertionError, match="does not take"):
        CheckedKernel(overwrite, ("spans.sizes",))(spans)


def test_the_order_of_a_group_is_part_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel compiled for fields in another order would read the wrong arrays."""
    before = fingerprint(measure_spans.function)
    monkeypatch.setitem(
        measure_spans.function.__globals__,
        "Spans",
        NamedTuple("Spans", [("ends", Longs), ("starts", Longs), ("most", int)]),
    )

    assert fingerprint(measure_spans.function) != before


def test_a_kernel_fills_the_arrays_that_it_writes() -> None:
    places = np.zeros(8, np.int64)

    assert find_byte(np.frombuffer(b"a,b,c", np.uint8), ord(","), places) == 2
    assert places[:2].tolist() == [1, 3]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (([1], 44, np.zeros(1, np.int64)), "expected an array of uint8, got list"),
        ((np.zeros(1, np.int8), 44, np.zeros(1, np.int64)), "got one of int8"),
        ((np.zeros(4, np.uint8)[::2], 44, np.zeros(1, np.int64)), "without gaps"),
        ((np.zeros((2, 2), np.uint8), 44, np.zeros(1, np.int64)), "one dimension"),
        ((np.zeros(1, np.uint8), "x", np.zeros(1, np.int64)), "expected int, got str"),
        ((np.zeros(1, np.uint8), 44, np.frombuffer(bytes(8), np.int64)), "read-only"),
        ((np.zeros(1, np.uint8), 44), "takes 3 arguments"),
    ],
)
def test_a_call_outside_of_the_contract_is_refused(
    arguments: tuple[object, ...], problem: str
) -> None:
    with pytest.raises(TypeError, match=problem):
        find_byte(*arguments)
    compiled_at_once = CheckedKernel(find_byte.function, find_byte.writes)
    compiled_at_once.interpreted = checked_kernel.INTERPRETED + 1
    with pytest.raises(TypeError, match=problem):
        compiled_at_once(*arguments)


def test_a_compiled_loop_gets_arrays_that_fit_it_alone() -> None:
    """They are compared with its types; numbers of numpy are converted, and others refused."""
    kernel_of = CheckedKernel(find_byte.function, find_byte.writes)
    kernel_of.interpreted = checked_kernel.INTERPRETED + 1
    data, places = np.frombuffer(b"a,b,c", np.uint8), np.zeros(8, np.int64)
    unaligned = np.frombuffer(bytearray(65), np.uint8)[1:].view(np.int64)
    swapped = np.zeros(8, ">i8")

    assert kernel_of(data, 44, places) == kernel_of(data, np.int64(44), places) == 2
    for arguments in ((data, 44.0, places), (data, 44, swapped), (data, 44, places[::-1])):
        with pytest.raises(TypeError):
            kernel_of(*arguments)
    with pytest.raises(TypeError):
        kernel_of(data, 44, unaligned)
    assert kernel_of(data[:0], 44, places[:0]) == 0


class _Alias:
    """As numpy 2.5 has ``NDArray``: an alias of its own, whose only argument is the scalar type."""

    def __class_getitem__(cls, item: Any) -> Any:
        return GenericAlias(cls, item)


@pytest.mark.parametrize(
    "hint",
    [
        npt.NDArray[np.uint16],
        np.ndarray[Any, np.dtype[np.uint16]],
        np.ndarray[tuple[int], np.dtype[np.uint16]],
        _Alias[np.uint16],  # type: ignore[misc]
    ],
    ids=["NDArray", "any shape", "one dimension", "alias"],
)
def test_an_array_is_of_the_scalar_type_that_its_annotation_names(hint: Any) -> None:
    def function(data: Any) -> int:
        return len(data)

    function.__annotations__["data"] = hint

    assert kernel()(function)(np.zeros(3, np.uint16)) == 3
    with pytest.raises(TypeError, match="expected an array of uint16, got one of uint8"):
        kernel()(function)(np.zeros(3, np.uint8))


@pytest.mark.parametrize("hint", [str, list[int], np.ndarray, npt.NDArray[np.int8 | np.uint8]])
def test_an_annotation_that_names_no_one_scalar_type_is_refused(hint: Any) -> None:
    def function(data: Any) -> int:
        return len(data)

    function.__annotations__["data"] = hint

    with pytest.raises(TypeError, match="a kernel takes arrays of one type, and numbers; not"):
        kernel()(function)(np.zeros(3, np.uint8))


def test_data_may_be_written_or_not() -> None:
    """One form is compiled for both."""
    places = np.zeros(8, np.int64)

    assert find_byte(np.frombuffer(b",,", np.uint8).copy(), ord(","), places) == 2
    assert find_byte(np.frombuffer(b",,", np.uint8), ord(","), places) == 2


def test_where_no_cache_can_be_written_it_is_compiled_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "loops.py").write_text(
        "from trailgate.arrays import Octets\n"
        "from trailgate.columnar.compiling import kernel\n"
        "@kernel()\n"
        "def first(data: Octets) -> int:\n"
        "    return data[0]\n"
    )
    (tmp_path / "file").write_text("a file where a folder is expected")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{SOURCE}{os.pathsep}{tmp_path}",
        "NUMBA_CACHE_DIR": str(tmp_path / "file" / "cache"),
    }
    program = "import numpy, loops; print(loops.first(numpy.array([7], numpy.uint8)))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout.strip(), done.stderr) == ("7", "")


def test_code_in_the_cache_is_compiled_again_when_a_function_or_constant_elsewhere_changes(
    tmp_path: Path,
) -> None:
    (tmp_path / "loops.py").write_text(
        "from __future__ import annotations\n"
        "from parts import LAST, plus\n"
        "from trailgate.arrays import Octets\n"
        "from trailgate.columnar.compiling import kernel\n"
        "@kernel()\n"
        "def total(data: Octets) -> int:\n"
        "    return plus(data[0]) + LAST\n"
    )
    program = (
        "import numpy, loops\n"
        "print(loops.total.compiled(numpy.array([7], numpy.uint8)), loops.total.cached().hit)\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": f"{SOURCE}{os.pathsep}{tmp_path}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TRAILGATE_LOOPS": "numba",
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
    }

    def run(added: int, last: int) -> str:
        (tmp_path / "parts.py").write_text(
            "from trailgate.columnar.compiling import inner\n"
            f"LAST = {last}\n"
            "@inner\n"
            f"def plus(value):\n    return value + {added}\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    assert run(1, 100) == "108 False"
    assert run(1, 100) == "108 True"
    assert run(2, 100) == "109 False"
    assert run(2, 200) == "209 False"


def test_a_negative_index_does_not_count_from_the_end(tmp_path: Path) -> None:
    """Indexes are not tested for their sign: with bounds checked, a negative one is beyond the end."""
    (tmp_path / "loops.py").write_text("def last(data, at):\n    return data[at]\n")
    program = (
        "import loops, numba, numpy\n"
        "from trailgate.columnar.compiling.numba_compiler import compilable\n"
        "last = numba.njit(compilable(loops.last))\n"
        "print(last(numpy.array([7, 8]), 1), last((7, 8), 0))\n"
        "last(numpy.array([7, 8]), -1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "PYTHONPATH": f"{SOURCE}{os.pathsep}{tmp_path}",
            "NUMBA_BOUNDSCHECK": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.strip() == "8 7"
    assert done.stderr.strip().endswith("IndexError: index is out of bounds")


def test_the_first_bytes_are_worked_on_without_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_kernel, "INTERPRETED", 1 << 16)
    counting = CheckedKernel(find_byte.function, find_byte.writes)
    few, many = np.frombuffer(b"a,b,c", np.uint8), np.frombuffer(b"a,b," * (1 << 15), np.uint8)
    places = np.zeros(len(many), np.int64)

    assert counting(few, ord(","), places[:8]) == 2
    assert "compiled" not in vars(counting)
    assert counting(many, ord(","), places) == 1 << 16
    assert "compiled" in vars(counting)


def test_an_interpreted_kernel_cannot_write_where_a_compiled_one_could_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checked_kernel, "INTERPRETED", 1 << 16)

    def overwrite(data: Octets) -> None:
        data[0] = 1

    with pytest.raises(ValueError, match="read-only"):
        CheckedKernel(overwrite, ())(np.zeros(1, np.uint8))


@pytest.mark.skipif(os.environ.get("TRAILGATE_LOOPS") == "plain", reason="nothing is compiled")
def test_loops_that_cannot_be_cached_are_reported(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that is in no file stands for folders that cannot be written: numba finds no place for either."""
    names = dict(find_byte.function.__globals__)
    text = "def count(data: Octets) -> int:\n    return len(data)\n"
    exec(compile(text, "<no file>", "exec", dont_inherit=True), names)
    monkeypatch.setattr(numba_compiler, "NOTICE", numba_compiler._Notice())
    with caplog.at_level("INFO", numba_compiler.__name__):
        assert CheckedKernel(names["count"], ()).compiled(np.zeros(3, np.uint8)) == 3

    (line,) = caplog.messages
    assert "not kept" in line
    assert "Set NUMBA_CACHE_DIR" in line
    assert str(Path(numba_compiler.__file__).parents[2]) in line
