"""What commands import: their help loads what declares their options, and a capture only the parser in use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import sleep
from urllib.request import urlopen

import pytest

from trailgate.capture.formats import PARSERS, import_name
from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import COMMANDS

HEAVY = ("pandas", "numba", "llvmlite", "numpy", "pyarrow", "pyspark", "duckdb", "lxml")
MOST_MODULES = 197
HELP = f"""
import sys
from contextlib import redirect_stdout
from io import StringIO
from trailgate.cli.main import run

for name in {list(COMMANDS)}:
    with redirect_stdout(StringIO()) as shown:
        assert run([name, "--help"]) == 0
    assert "Usage" in shown.getvalue(), name
    found = [module for module in {HEAVY} if module in sys.modules]
    assert not found, f"the help of {{name}} imports {{found}}"
"""
CAPTURE = """
import sys
from trailgate.cli.main import run

given = ["--properties", "dirprm/shop.properties", "--from", "messages", "--to", "dirdat/ot"]
assert run(["capture", *given]) == 0
print(*sorted(name for name in sys.modules if name.startswith("trailgate")), sep="\\n")
"""


def test_the_help_of_a_command_imports_nothing_that_is_slow() -> None:
    subprocess.run([sys.executable, "-c", HELP], check=True)


@pytest.mark.parametrize("row", PARSERS, ids=lambda row: row.name)
def test_the_rows_of_parsers_name_what_there_is(row: tuple[str, ...]) -> None:
    for place in row[1:]:
        assert not place or callable(import_name(place))


def test_a_capture_of_delimited_messages_imports_no_other_parser(tmp_path: Path) -> None:
    """The bound keeps what a capture does not need from coming back."""
    unpack(tmp_path / "shop")
    done = subprocess.run(
        [sys.executable, "-c", CAPTURE], cwd=tmp_path / "shop", check=True, stdout=subprocess.PIPE
    )

    modules = [name for name in done.stdout.decode().splitlines() if name.startswith("trailgate")]
    modules = [name for name in modules if name != "trailgate._loops"]  # only where it is built
    others = [row.format_at.partition(":")[0] for row in PARSERS if row.name != "delim"]
    assert not {f"trailgate.formats.{module}" for module in others} & set(modules)
    assert len(modules) <= MOST_MODULES


# No command imports these packages and modules, except those that are listed with the command below.
ONLY_IF_NEEDED = frozenset(
    {
        "azure",
        "botocore",
        "confluent_kafka",
        "deltalake",
        "duckdb",
        "google.auth",
        "hdfs_native",
        "jinja2",
        "llvmlite",
        "lxml",
        "numba",
        "pandas",
        "proton",
        "psycopg",
        "pydantic",
        "pyiceberg",
        "pyspark",
        "starlette",
        "trailgate.storage.files.cloud_addresses",
        "trailgate.storage.files.hdfs_client",
        "uvicorn",
    }
)
TRAIL = "dirdat/ot"
PROPERTIES = ("--properties", "dirprm/shop.properties")
QUERY = f"SELECT * FROM '{TRAIL}' LIMIT 3"
NEEDED: dict[tuple[str, ...], frozenset[str]] = {
    ("show", TRAIL, "--limit", "3"): frozenset(),
    ("check", TRAIL): frozenset(),
    ("gendef", *PROPERTIES, "--to", "other.def"): frozenset(),
    ("capture", *PROPERTIES, "--from", "messages", "--to", "dirdat/cp"): frozenset(),
    ("report", TRAIL, "--to", "report.html"): frozenset({"jinja2"}),
    ("sql", QUERY): frozenset({"duckdb"}),
    ("apply", TRAIL, "--to", "delta:lake/"): frozenset({"deltalake"}),
    ("apply", TRAIL, "--to", "iceberg:ice/"): frozenset({"pydantic", "pyiceberg"}),
}
RUN = f"""
import sys
from trailgate.cli.startup import hide_pandas

hide_pandas()
from trailgate.cli.main import run

assert run(sys.argv[1:]) == 0
print(*sorted({set(ONLY_IF_NEEDED)} & set(sys.modules)), sep=",")
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imports") / "shop"
    unpack(folder)
    _run(folder, "capture", *PROPERTIES, "--from", "messages", "--to", TRAIL)
    return folder


def _run(folder: Path, *arguments: str) -> set[str]:
    """Run a command, and return the packages of ONLY_IF_NEEDED that it imports."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments], cwd=folder, check=True, stdout=subprocess.PIPE
    )
    return set(done.stdout.decode().splitlines()[-1].split(",")) - {""}


@pytest.mark.parametrize("arguments", NEEDED, ids=" ".join)
def test_a_command_imports_only_the_packages_that_it_needs(
    shop: Path, arguments: tuple[str, ...]
) -> None:
    assert _run(shop, *arguments) <= NEEDED[arguments]


def test_functions_of_pyarrow_work_without_the_help_of_their_options() -> None:
    code = """
import inspect, sys
from trailgate.cli.startup import shorten_compute_help
if sys.argv[1:]:
    shorten_compute_help()
import pyarrow as pa, pyarrow.compute as pc
print(pc.round(pa.array([1.25]), ndigits=1, round_mode="half_to_odd"), inspect.signature(pc.round))
print(pc.match_substring(pa.array(["ab"]), "A", ignore_case=True), "pydoc" in sys.modules)
"""
    plain, short = (
        subprocess.run([sys.executable, "-c", code, *more], check=True, stdout=subprocess.PIPE)
        for more in ([], ["short"])
    )

    assert plain.stdout.replace(b"True\n", b"False\n") == short.stdout


def test_pyarrow_converts_to_pandas_after_it_was_hidden() -> None:
    code = """
import sys
from trailgate.cli.startup import hide_pandas
hide_pandas()
import pyarrow as pa
table = pa.table({"a": pa.array([1, 2])})
try:
    import pandas
except ImportError:
    sys.meta_path[0].find_spec("pyspark", None)  # as importing it does
    print(table.to_pandas()["a"].sum())
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE)

    assert done.stdout == b"3\n"


def test_the_first_page_of_a_trail_imports_what_it_needs_and_not_pandas(
    shop: Path, tmp_path: Path
) -> None:
    (tmp_path / "pandas.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w').close()\n")
    command = [sys.executable, "-X", "importtime", "-m", "trailgate", "browse", TRAIL, "--no-open"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path[1:]])}
    with (
        (tmp_path / "times").open("w+") as times,
        subprocess.Popen(
            command, cwd=shop, env=environment, stdout=subprocess.PIPE, stderr=times, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            for _ in range(100):
                with urlopen(address) as answer:
                    page = answer.read().decode()
                if "is whole" in page:
                    break
                sleep(0.1)
        finally:
            process.terminate()
            process.wait()
        times.seek(0)
        imported = {line.rpartition("|")[2].strip() for line in times}

    assert "The trail is whole" in page
    assert {"jinja2", "pyarrow", "uvicorn"} <= imported
    assert not (tmp_path / "imported").exists()
    imported -= {"pandas"}  # pyarrow has asked for it, and was told that there is none
    assert imported & ONLY_IF_NEEDED <= {"jinja2", "starlette", "uvicorn"}


def test_dataclasses_are_the_same_if_their_methods_are_compiled_late() -> None:
    code = """
import sys
from trailgate.cli.startup import compile_dataclasses_late
if sys.argv[1:]:
    compile_dataclasses_late()
from copy import copy
from dataclasses import dataclass, field, replace
import inspect, pickle

@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = field(default=2, repr=False, compare=False)

@dataclass(order=True)
class Named(object):
    name: str
    parts: list = field(default_factory=list)

@dataclass(frozen=True)
class Loop:
    own: list

loop = Loop([])
loop.own.append(loop)
print(Point(1), Point(1) == Point(1, 3), Point(1) == (1, 2), Point(1) != Point(2), loop)
print(hash(Point(1)) == hash((1,)), {Point(1): 5}[Point(1, 7)], replace(Point(1), x=4), copy(Point(3)))
print(Named("a", [1]), Named("a") < Named("b"), Named.__hash__, Named("a") == Named("a"))
for act in (lambda p: setattr(p, "x", 3), lambda p: delattr(p, "x"), lambda p: setattr(p, "z", 3)):
    try:
        act(Point(1))
    except (AttributeError, TypeError) as error:
        print(type(error).__name__, error)
print(inspect.signature(Point), Point.__repr__.__qualname__, Point.__eq__.__name__, pickle.loads(pickle.dumps(Point(5))))
"""
    plain, late = (
        subprocess.run([sys.executable, "-c", code, *more], check=True, stdout=subprocess.PIPE)
        for more in ([], ["late"])
    )

    assert plain.stdout == late.stdout
    assert plain.stdout
