"""What users import: exactly the public names, each loaded when it is used, keywords that agree with the options."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import FunctionType, ModuleType, NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import trailgate
from trailgate import errors
from trailgate.apply.jobs.options import OPTIONS as APPLIED
from trailgate.apply.jobs.options import ApplyKeywords
from trailgate.mainframe.jobs.options import OPTIONS as RECORD_OPTIONS
from trailgate.mainframe.jobs.writing import WRITING, WritingKeywords
from trailgate.options import Options
from trailgate.storage.reading.options import OPTIONS as TRAIL_OPTIONS

SOURCE = Path(__file__).parents[1] / "src"
HEAVY = ("numpy", "pyarrow", "numba", "pyspark", "pandas", "typer", "rich", "lxml")
OPTIONAL = ("pyspark", "typer", "rich", "lxml")  # pyarrow loads pandas where it is installed


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SOURCE), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_every_public_name_is_there_and_no_other_is_listed() -> None:
    assert dir(trailgate) == sorted(trailgate.__all__)
    assert trailgate.__all__ == sorted(trailgate.__all__)
    for name in trailgate.__all__:
        assert getattr(trailgate, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'reed_trail'"):
        trailgate.reed_trail  # noqa: B018  the access is the test


def test_every_public_class_and_function_has_a_docstring() -> None:
    for name in trailgate.__all__:
        value = getattr(trailgate, name)
        assert isinstance(value, str) or inspect.getdoc(value), name


def test_every_error_is_public() -> None:
    classes = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.TrailgateError)
    }

    assert classes < set(trailgate.__all__)


def test_importing_loads_nothing_that_is_heavy() -> None:
    code = f"import sys, trailgate; print([name for name in {HEAVY} if name in sys.modules])"

    assert run(code) == "[]"


def test_reading_a_trail_loads_neither_spark_nor_the_command_line() -> None:
    code = (
        "import sys, trailgate; trailgate.read_trail; trailgate.load_capture; "
        f"print([name for name in {OPTIONAL} if name in sys.modules])"
    )

    assert run(code) == "[]"


def test_without_spark_the_extra_is_named() -> None:
    code = (
        "import importlib.util; importlib.util.find_spec = lambda name: None\n"
        "try: import trailgate.spark.jobs.parquet\n"
        "except ImportError as error: print(error)"
    )

    assert run(code).startswith("PySpark is not installed. Install it with: ")
    assert "-m pip install 'pyspark" in run(code)


def test_the_names_on_spark_are_listed_and_there() -> None:
    spark = pytest.importorskip("trailgate.spark")

    assert dir(spark) == spark.__all__ == sorted(spark.__all__)
    for name in spark.__all__:
        assert getattr(spark, name).__name__ == name


def test_the_version_is_that_of_the_package() -> None:
    try:
        installed = metadata.version("trailgate")
    except metadata.PackageNotFoundError:
        pytest.skip("trailgate is not installed")

    assert trailgate.__version__ == installed


@pytest.mark.parametrize(
    ("function", "options", "own"),
    [
        (trailgate.read_trail, TRAIL_OPTIONS, {"path", "limit", "threads"}),
        (trailgate.read_records, RECORD_OPTIONS, {"path", "counts"}),
        (trailgate.verify_records, RECORD_OPTIONS, {"path", "examples", "progress"}),
        (trailgate.write_records, WRITING, {"batches", "path"}),
    ],
)
def test_the_keywords_are_the_options_with_their_defaults(
    function: Callable[..., Any], options: Options, own: set[str]
) -> None:
    parameters = inspect.signature(function).parameters

    assert set(parameters) - own == {row.name for row in options}
    for row in options:
        default = parameters[row.name].default
        if default is None:
            assert not row.default, row.name
        else:
            assert row.value(default) == row.default, row.name


def literals(hint: Any) -> set[Any]:
    """Return the values of all Literals in a type."""
    if get_origin(hint) is Literal:
        return set(get_args(hint))
    return {value for inside in get_args(hint) for value in literals(inside)}


@pytest.mark.parametrize(
    ("typed", "options"),
    [
        (WritingKeywords, WRITING),
        (ApplyKeywords, APPLIED),
        (trailgate.read_trail, TRAIL_OPTIONS),
    ],
)
def test_the_words_of_a_typed_keyword_are_those_that_its_option_accepts(
    typed: Any, options: Options
) -> None:
    hints, compared = get_type_hints(typed), set()
    for row in options:
        if row.name not in hints or not isinstance(row.kind.read, FunctionType):
            continue
        # The texts of a ``choice``, without those of a bool.
        known = inspect.getclosurevars(row.kind.read).nonlocals.get("known", {})
        words = set(known) - {"true", "false"}
        if words:
            assert {word.casefold() for word in literals(hints[row.name])} == words, row.name
            compared.add(row.name)
    assert {"binary_sizes", "record_format", "mode", "times"} & compared


@pytest.mark.parametrize("keywords", [WritingKeywords, ApplyKeywords])
def test_a_typed_keyword_without_a_default_may_be_none(keywords: Any) -> None:
    hints = get_type_hints(keywords)
    for row in APPLIED if keywords is ApplyKeywords else WRITING:
        if row.default is None and row.name in hints:
            assert NoneType in get_args(hints[row.name]), row.name


@pytest.mark.parametrize("module", ["trailgate", "trailgate.spark"])
def test_every_public_function_lists_its_keywords(module: str) -> None:
    pytest.importorskip("pyspark")
    loaded: ModuleType = __import__(module, fromlist=["__all__"])
    for name in loaded.__all__:
        function = getattr(loaded, name)
        if inspect.isfunction(function) and name != "session":  # its keywords are Spark's settings
            kinds = {one.kind for one in inspect.signature(function).parameters.values()}
            assert inspect.Parameter.VAR_KEYWORD not in kinds, name


def test_all_public_errors_have_one_root() -> None:
    for name in ("DecodeError", "OptionError", "StorageError", "MissingDependencyError"):
        assert issubclass(getattr(trailgate, name), trailgate.TrailgateError)
