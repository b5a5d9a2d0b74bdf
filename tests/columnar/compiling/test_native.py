"""Native loops: they check their arguments before they run, give what plain Python gives, and need no other library."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compared_loops import compare, runs_here, ways_of
from trailgate.cli.commands.warm import kernels
from trailgate.columnar.compiling import CheckedKernel, available_loops
from trailgate.columnar.compiling.available_loops import Loops, forced_loops
from trailgate.columnar.compiling.contracts import ArrayContract
from trailgate.columnar.compiling.inner_functions import fingerprint
from trailgate.columnar.gather_kernels import measure_values

SOURCE = Path(__file__).parents[3] / "src"
BUILT: Any = available_loops.extension()
KERNELS = sorted(kernels(), key=lambda kernel: (kernel.function.__module__, kernel.__name__))
# What loops may ask of the C library; the rest is Python's limited API.
LINKED = {"memset", "memcpy", "strcmp", "strlen", "pow"}
built = pytest.mark.skipif(BUILT is None, reason="no native loops here: make native")


def name_of(kernel: CheckedKernel) -> str:
    return f"{kernel.function.__module__}.{kernel.__name__}"


def arguments_of(kernel: CheckedKernel) -> list[Any]:
    """Return arguments that fit: arrays of zeros, and zeros."""
    return [
        np.zeros(8, row.dtype) if isinstance(row, ArrayContract) else row.kind(0)
        for row in kernel.contract.values()
    ]


def unaligned(dtype: np.dtype[Any]) -> Any:
    return np.zeros(8 * dtype.itemsize + 1, np.uint8)[1:].view(dtype)


def read_only(dtype: np.dtype[Any]) -> Any:
    array = np.zeros(8, dtype)
    array.flags.writeable = False
    return array


# What is wrong with an array, and the array.
WRONG: dict[str, Callable[[np.dtype[Any]], Any]] = {
    "a list": lambda _: [0] * 8,
    "bytes": lambda _: bytes(8),
    "nothing": lambda _: None,
    "another type": lambda dtype: np.zeros(8, "f4" if dtype.itemsize != 4 else "u2"),
    "another sign": lambda dtype: np.zeros(
        8, f"{'i' if dtype.kind in 'ub' else 'u'}{dtype.itemsize}"
    ),
    "another order of bytes": lambda dtype: np.zeros(
        8, ">i8" if dtype.itemsize == 1 else dtype.newbyteorder(">")
    ),
    "two dimensions": lambda dtype: np.zeros((8, 2), dtype),
    "no dimension": lambda dtype: np.zeros((), dtype),
    "gaps": lambda dtype: np.zeros(16, dtype)[::2],
    "from the end": lambda dtype: np.zeros(8, dtype)[::-1],
}
WRONG_NUMBERS: dict[type[Any], tuple[Any, ...]] = {
    bool: (0, 1.0, "", None),
    int: (0.0, "0", None, [0]),
    float: (0, "0", None, [0.0]),
}


@built
@pytest.mark.skipif(
    forced_loops() is not Loops.NATIVE, reason="the loops may be older than the sources"
)
def test_each_kernel_was_built() -> None:
    assert [
        name_of(kernel)
        for kernel in KERNELS
        if available_loops.native_loop(kernel.function) is None
    ] == []
    assert set(BUILT.names) == {name_of(kernel) for kernel in KERNELS}


@built
def test_each_argument_that_breaks_the_contract_is_refused_before_a_loop_runs() -> None:
    """Each argument of each kernel is replaced by what it may not be, and all others fit."""
    tried = 0
    for kernel in KERNELS:
        found = BUILT.find(name_of(kernel))
        if available_loops.native_loop(kernel.function) is None:
            continue
        for place, row in enumerate(kernel.contract.values()):
            if isinstance(row, ArrayContract):
                wrong = [make(row.dtype) for make in WRONG.values()]
                wrong += [unaligned(row.dtype)] if row.dtype.itemsize > 1 else []
                wrong += [read_only(row.dtype)] if row.writes else []
            else:
                wrong = list(WRONG_NUMBERS[row.kind])
            for value in wrong:
                arguments = arguments_of(kernel)
                arguments[place] = value
                for loop in (found[1], kernel):
                    with pytest.raises(TypeError):
                        loop(*arguments)
                tried += 1
        for count in (0, len(kernel.contract) - 1, len(kernel.contract) + 1):
            with pytest.raises(TypeError, match="takes"):
                found[1](*[*arguments_of(kernel), 0][:count])
    if not tried:
        pytest.skip("the loops are older than the sources: make native")


@built
def test_numbers_of_numpy_and_both_names_of_int64_are_taken() -> None:
    kernel = CheckedKernel(measure_values.function, measure_values.writes)
    if kernel.native is None:
        pytest.skip("the loops are older than the sources, or another way is forced")
    arguments: list[Any] = [
        np.arange(8),
        np.arange(8) + 2,
        np.zeros(8, np.bool_),
        20,
        np.zeros(9, np.int32),
    ]
    as_numpy = [np.int64(value) if type(value) is int else value for value in arguments]
    as_long_long = [
        value.astype(np.longlong) if getattr(value, "dtype", None) == np.int64 else value
        for value in arguments
    ]

    assert kernel(*arguments) == kernel(*as_numpy) == kernel(*as_long_long) == 16


@built
def test_numbers_beyond_int64_are_refused() -> None:
    for kernel in KERNELS:
        numbers = [
            place
            for place, row in enumerate(kernel.contract.values())
            if getattr(row, "kind", None) is int
        ]
        for place in numbers:
            arguments = arguments_of(kernel)
            arguments[place] = 1 << 63
            found = BUILT.find(name_of(kernel))
            if available_loops.native_loop(kernel.function) is not None:
                with pytest.raises(OverflowError):
                    found[1](*arguments)


@built
def test_the_extension_needs_only_the_c_library_of_manylinux() -> None:
    if shutil.which("nm") is None:
        pytest.skip("nm is not here")
    listed = subprocess.run(
        ["nm", "-D", "-u", BUILT.__file__], capture_output=True, text=True, check=True
    ).stdout
    needed = dict.fromkeys(line.split()[-1] for line in listed.splitlines() if " U " in line)
    ours = {name for name in needed if not re.match(r"_?Py", name)}
    versions = [
        tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([\d.]+)", listed)
    ]

    assert {name.partition("@")[0] for name in ours} <= LINKED
    assert max(versions) <= (2, 17)


@built
def test_a_level_is_one_that_the_processor_has() -> None:
    assert BUILT.level in BUILT.levels
    assert runs_here(BUILT.levels[0])


def test_a_loop_of_other_code_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fingerprint of other code, of the same code, and none, as in a wheel."""

    class Loops:
        found: tuple[str, str] | None = None

        def find(self, name: str) -> Any:
            assert name == name_of(measure_values)
            return self.found

    loops = Loops()
    monkeypatch.setattr(available_loops, "extension", lambda: loops)
    found: list[Any] = []
    for built_from in ("other", fingerprint(measure_values.function), ""):
        loops.found = (built_from, "the loop")
        found.append(available_loops.native_loop(measure_values.function))
    loops.found = None
    found.append(available_loops.native_loop(measure_values.function))

    assert found == [None, "the loop", "the loop", None]


def test_a_difference_is_noticed() -> None:
    """Of a result, of its type, and of an array."""
    right = lambda data: int(data.sum())  # noqa: E731
    numbers = np.arange(8)
    compare("same", {"plain": right, "other": right}, (numbers,))
    wrong: dict[str, Callable[..., Any]] = {
        "result": lambda data: int(data.sum()) + 1,
        "type": lambda data: float(data.sum()),
        "array": lambda data: (int(data.sum()), data.fill(0))[0],
    }
    for other in wrong.values():
        with pytest.raises(AssertionError, match="other differs from plain"):
            compare("x", {"plain": right, "other": other}, (numbers,))
    assert numbers.tolist() == list(range(8)), "ways run on copies"


def test_all_ways_agree_on_empty_arrays() -> None:
    """Each kernel whose numbers may be zero, in each way that is present, but numba's, which would compile all."""
    for kernel in KERNELS:
        rows = kernel.contract.values()
        if all(isinstance(row, ArrayContract) for row in rows):
            empty = tuple(np.zeros(0, row.dtype) for row in rows if isinstance(row, ArrayContract))
            try:
                kernel._as_written(list(empty))
            except IndexError:  # it reads a first offset
                continue
            compare(name_of(kernel), dict(ways_of(kernel, with_numba=False)), empty)


PROGRAM = (
    "import numpy\n"
    "from trailgate.columnar.compiling import available_loops, checked_kernel\n"
    "available_loops.find_spec = lambda name: None\n"  # as if numba were not installed
    "available_loops.extension = lambda: None\n"
    "from trailgate.columnar.strings_kernels import longest_value\n"
    "rows = longest_value.contract.values()\n"
    "many = [numpy.zeros(1 << 16, row.dtype) if hasattr(row, 'dtype') else row.kind(0) for row in rows]\n"
    "for _ in range(3): longest_value(*many)\n"
    "print(type(longest_value.compiled).__name__)\n"
)


SLOW = f"loops run as plain Python, which is slow: numba is not installed. Install it with: {sys.executable} -m pip install numba\n"


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("numba", "TRAILGATE_LOOPS=numba, and numba is not installed"),
        (
            "native",
            "TRAILGATE_LOOPS=native, but longest_value was not built from the code that is here",
        ),
        ("fast", "TRAILGATE_LOOPS=fast: expected one of native, numba, plain"),
    ],
)
def test_a_forced_way_that_is_missing_is_an_error(word: str, problem: str) -> None:
    done = run_without_loops(word)

    assert done.returncode == 1
    assert problem in done.stderr.splitlines()[-1] or problem in done.stderr.splitlines()[-2]


@pytest.mark.parametrize(("word", "warning"), [("", SLOW), ("plain", "")])
def test_without_numba_and_native_loops_plain_python_runs_with_one_warning(
    word: str, warning: str
) -> None:
    done = run_without_loops(word)

    assert (done.stderr, done.stdout) == (warning, "function\n")


def run_without_loops(word: str) -> subprocess.CompletedProcess[str]:
    """Run a kernel as if neither numba nor native loops were installed."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TRAILGATE_LOOPS": word}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
