"""The wheel with native loops: commands run without numba, and without compiling anything."""

from __future__ import annotations

import importlib.util
import re
import zipfile
from email.parser import Parser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from installed_wheel import ROOT, Environment, build_wheel
from trailgate.cli.commands.demo import unpack
from trailgate.columnar.compiling import available_loops
from trailgate.columnar.compiling.available_loops import Loops, forced_loops

# Loops of a checkout have the fingerprints of its sources, which are those of the wheel if none was changed since: make test-kernels builds them.
pytestmark = [
    pytest.mark.xdist_group("native_wheel"),
    pytest.mark.skipif(forced_loops() is not Loops.NATIVE, reason="make test-kernels"),
]


def tool(name: str) -> ModuleType:
    """Return a program of the folder ``tools`` as a module."""
    found = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def wheel(pure: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    extension = Path(available_loops.extension().__file__)
    made: Path = tool("native_wheel").add_loops(pure, extension, tmp_path_factory.mktemp("native"))
    return made


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("bare"), wheel, "")


def members(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def metadata_of(wheel: Path) -> Any:
    files = members(wheel)
    return Parser().parsestr(
        next(data for name, data in files.items() if name.endswith("/METADATA")).decode()
    )


def shop_in(folder: Path) -> Path:
    """Return the folder of a sample with many copies of a file of messages."""
    shop = folder / "shop"
    unpack(shop)
    first = next(path for path in sorted((shop / "messages").iterdir()) if path.is_file())
    for copy in range(40):
        (shop / "messages" / f"{first.stem}{copy}{first.suffix}").write_bytes(first.read_bytes())
    return shop


def test_the_native_wheel_adds_loops_and_asks_for_no_numba(pure: Path, wheel: Path) -> None:
    before, after = metadata_of(pure), metadata_of(wheel)
    asked = [set(each.get_all("Requires-Dist")) for each in (before, after)]
    old, new = members(pure), members(wheel)
    changed = {name for name in {*old, *new} if old.get(name) != new.get(name)}

    assert {re.match(r"[\w-]+", text)[0] for text in asked[0] - asked[1]} == {"numba"}  # type: ignore[index]
    assert asked[1] < asked[0]
    assert {name.rpartition("/")[2] for name in changed} == {
        "_loops.abi3.so",
        "METADATA",
        "RECORD",
        "WHEEL",
    }
    assert re.fullmatch(r"trailgate-.*-cp311-abi3-manylinux_2_17_\w+\.whl", wheel.name)


def test_the_same_files_give_the_same_wheel(pure: Path, wheel: Path, tmp_path: Path) -> None:
    extension = Path(available_loops.extension().__file__)

    again = tool("native_wheel").add_loops(pure, extension, tmp_path)

    assert again.read_bytes() == wheel.read_bytes()


def test_commands_run_without_numba(bare: Environment, tmp_path: Path) -> None:
    """A capture of more bytes than plain Python would work on, and what reads its trail."""
    code = (
        "import importlib.util\n"
        "print(importlib.util.find_spec('numba'), importlib.util.find_spec('llvmlite'))"
    )
    begun = bare.run("python", "-c", code, folder=tmp_path)
    assert (begun.stdout, begun.stderr) == ("None None\n", "")
    shop = shop_in(tmp_path)
    given = ["--properties", "dirprm/shop.properties", "--from", "messages", "--to", "dirdat/ot"]
    commands = [
        ("capture", *given),
        ("show", "dirdat/ot", "--limit", "3"),
        ("check", "dirdat/ot"),
        ("warm",),
    ]
    for loops in ("", "native"):
        for command in commands[bool(loops) :]:
            done = bare.run(
                "trailgate", *command, folder=shop, compiled=True, TRAILGATE_LOOPS=loops
            )
            assert (done.returncode, "slow" in done.stderr) == (0, False), done.stderr
            assert "compiling" not in done.stderr


CLUSTER = """
import importlib.util, os, sys
import trailgate
from trailgate.columnar.compiling.available_loops import extension
from trailgate.spark import register, session

def seen(_):
    found = importlib.util.find_spec("numba"), os.path.basename(extension().__file__)
    return [(*found, sorted(os.listdir(os.environ["HOME"])))]

def main():
    captured = trailgate.capture_files("messages", "dirdat/ot", "dirprm/shop.properties").operations
    made = session("local-cluster[1,1,1024]", **{"spark.executorEnv.HOME": sys.argv[1]})
    register(made)
    read = made.read.format("trail").load("dirdat/ot").count()
    print(captured == read, made.sparkContext.parallelize([1], 1).mapPartitions(seen).collect())
    made.stop()

main()
"""


@pytest.mark.timeout(900)
def test_workers_of_a_cluster_with_an_empty_home_compile_nothing(
    wheel: Path, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    from trailgate.spark.sessions import spark_java_home  # noqa: PLC0415  an extra

    environment = Environment(tmp_path / "spark", wheel, "spark")
    shop, home = shop_in(tmp_path), tmp_path / "home"
    home.mkdir()

    done = environment.run(
        "python",
        "-c",
        CLUSTER,
        str(home),
        folder=shop,
        compiled=True,
        JAVA_HOME=str(spark_java_home()),
        PYSPARK_PYTHON=str(environment.bin / "python"),
    )

    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.strip() == "True [(None, '_loops.abi3.so', [])]"
    assert "compiling" not in done.stderr


def test_numba_is_an_error_if_it_is_forced(bare: Environment, tmp_path: Path) -> None:
    done = bare.run("trailgate", "demo", "--no-spark", folder=tmp_path, TRAILGATE_LOOPS="numba")

    assert done.returncode != 0
    assert "TRAILGATE_LOOPS=numba, and numba is not installed. Install it with: " in done.stderr
