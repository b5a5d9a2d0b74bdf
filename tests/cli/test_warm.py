"""``trailgate warm``: all loops are compiled ahead, once for all processes that share a cache."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from trailgate.cli.commands.warm import kernel_modules, kernels
from trailgate.cli.main import run

SOURCE = Path(__file__).parents[2] / "src"


def test_every_kernel_is_found() -> None:
    """Kernels are found by the names of their modules, so no other module may have one."""
    with_kernels = {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for path in SOURCE.rglob("*.py")
        if re.search(r"^@kernel\(", path.read_text(), re.MULTILINE)
    }

    assert with_kernels
    assert with_kernels <= set(kernel_modules())
    assert {kernel.function.__module__ for kernel in kernels()} == with_kernels


def test_warm_reports_the_compiled_loops_and_their_cache(tmp_path: Path) -> None:
    first, second = (warming(tmp_path).communicate()[0] for _ in range(2))

    assert re.match(r"(\d+) loops: \1 compiled in [\d.]+ s, 0 found compiled\n", first)
    assert re.match(r"(\d+) loops: 0 compiled in [\d.]+ s, \1 found compiled\n", second)
    assert first.splitlines()[1] == second.splitlines()[1]
    assert first.splitlines()[1].startswith(f"cache: {tmp_path}")


@pytest.mark.slow
def test_processes_that_start_at_once_share_a_cache(tmp_path: Path) -> None:
    running = [warming(tmp_path) for _ in range(3)]
    finished = [(process.communicate(), process.returncode) for process in running]

    assert [code for _, code in finished] == [0] * 3, finished
    assert "0 compiled in " in warming(tmp_path).communicate()[0]


def warming(cache: Path) -> subprocess.Popen[str]:
    """Start a process that warms some of the kernels into a cache folder."""
    program = (
        "from trailgate.cli.commands import warm\n"
        "warm.kernel_modules = lambda: ['trailgate.columnar.gather_kernels']\n"
        "warm.command()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "PYTHONPATH": str(SOURCE),
            "NUMBA_CACHE_DIR": str(cache),
            "TRAILGATE_LOOPS": "numba",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_compiling_is_reported_on_stderr_and_only_then(tmp_path: Path) -> None:
    """What is printed is the log of the kernels' module; results go to stdout alone."""
    program = (
        "import logging; from trailgate.cli import main as program\n"
        "program.run = lambda _: logging.getLogger("
        "'trailgate.columnar.compiling.checked_kernel').info('compiling loops') or 0\n"
        "program.main(['x'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert (done.stdout, done.stderr) == ("", "compiling loops\n")


def test_native_loops_need_no_compiling(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in kernels():  # each keeps its native loop once it is looked for
        monkeypatch.setitem(vars(one), "native", "a loop")

    assert run(["warm"]) == 0
    assert re.fullmatch(r"\d+ loops are native\n", capsys.readouterr().out)


def test_warm_needs_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["warm", "--help"]) == 0
    assert "ahead" in capsys.readouterr().out
