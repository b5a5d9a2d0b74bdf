"""The demo walks the whole way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trailgate.cli.main import run


def test_without_spark_the_demo_shows_each_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "demo")
    assert run(["demo", "--dir", folder, "--no-spark"]) == 0
    assert run(["demo", "--dir", folder, "--no-spark"]) == 0
    out = capsys.readouterr().out
    assert out.count("$ trailgate capture --properties") == 6
    assert "6 messages, 6 transactions, 13 operations" in out
    assert "PRICE=NULL" in out
    before, after = (
        "ANN        ANN'S BOATS         SEATTLE",
        "ANN        ANN'S BOATS         NEW YORK",
    )
    assert out.rindex(before) < out.rindex(after)  # the second batch updates the row


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    assert run(["demo", "--dir", str(tmp_path), "--no-spark"]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.servers  # a Spark of its own; make demo is one too
@pytest.mark.spark
def test_on_spark_the_trail_is_read_back(tmp_path: Path) -> None:
    # A process of its own: the demo ends its session, and the other tests share one.
    program = "from trailgate.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "demo", "--dir", str(tmp_path / "demo")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "|GG.SHOP_ORDERS    |I      |3    |" in done.stdout
    assert done.stdout.count("6 messages, 6 transactions, 13 operations") == 2


def test_without_arguments_the_program_names_first_steps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([]) == 2

    out = capsys.readouterr().out
    assert "trailgate demo" in out
    assert max(map(len, out.splitlines())) <= 80
