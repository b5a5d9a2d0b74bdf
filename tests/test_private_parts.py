"""Parts of other packages that are not theirs to promise: each is named here, is there, and its package has an upper bound.

Where one is gone, what uses it needs another way before the bound in ``pyproject.toml`` is raised.
"""

from __future__ import annotations

import ast
import dataclasses
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement

from parsed_sources import SOURCES_GROUP, nodes

ROOT = Path(__file__).parents[1]

# Names of modules that their package does not document for others: package, module, names.
NAMES: Final = {
    ("pyspark", "pyspark.sql.pandas.types"): {
        "from_arrow_schema",
        "from_arrow_type",
        "to_arrow_schema",
    },
    ("pyiceberg", "pyiceberg.io.pyarrow"): {"_dataframe_to_data_files"},
    ("pyiceberg", "pyiceberg.table.update.snapshot"): {"_OverwriteFiles"},
    ("python-qpid-proton", "cproton"): {
        "PN_ACCEPTED",
        "pn_delivery_aborted",
        "pn_delivery_partial",
        "pn_delivery_pending",
        "pn_delivery_settle",
        "pn_delivery_update",
        "pn_link_advance",
        "pn_link_credit",
        "pn_link_current",
        "pn_link_flow",
        "pn_link_recv",
    },
}
UNDOCUMENTED: Final = ("numba.core", "pyspark.sql.pandas", "cproton")
# Names that begin with an underscore, and are documented.
DOCUMENTED: Final = {
    "_asdict",  # of NamedTuple
    "_replace",  # as above
    "_AUTHENTICATION",  # errors of confluent_kafka.KafkaError
    "_ALL_BROKERS_DOWN",  # as above
    "_FENCED",
    "_PARTITION_EOF",
    "_AUTO_OFFSET_RESET",  # as above
    "_SSL",  # as above
}


# Of Python itself: used where it exists, which is up to 3.12.
OF_PYTHON: Final = {"_create_fn"}  # of dataclasses


def _link() -> Any:
    import proton  # noqa: PLC0415  an extra

    return proton.Connection().session().receiver("link")


# Attributes that begin with an underscore: package, attributes in their order, and an object that has the first one.
ATTRIBUTES: Final[dict[tuple[str, str], Callable[[], Any]]] = {
    ("python-qpid-proton", "_impl"): _link,
}


def _installed(package: str) -> str:
    """Return the package's version; skips the test without it."""
    if package == "python-qpid-proton":
        pytest.importorskip("proton", reason="AMQP needs the extra amqp")
    return version(package)


def _uses(package: str) -> str:
    return f"{package} {_installed(package)} has it no more: find another way before the bound in pyproject.toml is raised"


# Private methods of pyiceberg that our classes override.
OVERRIDDEN: Final = (
    ("pyiceberg.table.Transaction", "_rebuild_snapshot_updates"),
    ("pyiceberg.table.update.snapshot._OverwriteFiles", "_existing_manifests"),
)


@pytest.mark.parametrize(("package", "module"), NAMES, ids=[module for _, module in NAMES])
def test_a_module_has_the_private_names_that_are_used(package: str, module: str) -> None:
    uses = _uses(package)

    missing = [name for name in NAMES[package, module] if not hasattr(import_module(module), name)]

    assert missing == [], f"{module}: {uses}"


@pytest.mark.parametrize(("package", "path"), ATTRIBUTES, ids=[path for _, path in ATTRIBUTES])
def test_an_object_has_the_private_attributes_that_are_used(package: str, path: str) -> None:
    uses = _uses(package)
    value = ATTRIBUTES[package, path]()

    for name in path.split("."):
        assert hasattr(value, name), f"{type(value).__name__}.{name}: {uses}"
        value = getattr(value, name)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="dataclasses compile all methods at once")
def test_the_private_parts_of_python_exist() -> None:
    assert not OF_PYTHON - set(dir(dataclasses))


@pytest.mark.parametrize(("base", "name"), OVERRIDDEN)
def test_a_class_has_the_private_methods_that_are_overridden(base: str, name: str) -> None:
    module, _, own = base.rpartition(".")
    assert hasattr(getattr(import_module(module), own), name), _uses("pyiceberg")


@pytest.mark.parametrize("package", sorted({package for package, _ in [*NAMES, *ATTRIBUTES]}))
def test_a_package_whose_private_parts_are_used_has_an_upper_bound(package: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    strings = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    asked = [
        requirement for requirement in map(Requirement, strings) if requirement.name == package
    ]

    assert asked
    for requirement in asked:
        assert any(part.operator == "<" for part in requirement.specifier), requirement


def _imported(tree: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """Yield the modules and names of other packages that are imported."""
    for node in tree:
        if isinstance(node, ast.Import):
            yield from ((name.name, "") for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.module, name.name) for name in node.names)


def _is_private(module: str, name: str) -> bool:
    parts = [*module.split("."), name]
    if parts[0] in {"trailgate", "__future__", *sys.stdlib_module_names}:
        return False
    whole = f"{module}.{name}."
    return any(part.startswith("_") for part in parts) or whole.startswith(
        tuple(f"{prefix}." for prefix in UNDOCUMENTED)
    )


@SOURCES_GROUP
def test_no_other_private_name_is_imported() -> None:
    """``import cproton`` takes all that it names from there: see the next test but one."""
    found = {
        (module, name) for module, name in _imported(chain(*nodes())) if _is_private(module, name)
    }
    named = {(module, name) for (_, module), names in NAMES.items() for name in names}
    whole = {("cproton", "")}

    assert found - named == whole


def _own(tree: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names that a module defines, as functions, classes, fields or attributes of ``self``."""
    for node in tree:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id in {"self", "cls"}
        ):
            yield node.attr


@SOURCES_GROUP
def test_no_other_private_attribute_is_used() -> None:
    own = set(_own(chain(*nodes())))
    used = {node.attr for node in chain(*nodes()) if isinstance(node, ast.Attribute)}
    private = {name for name in used if name.startswith("_") and not name.startswith("__")}

    named = {name for _, path in ATTRIBUTES for name in path.split(".")}

    assert private - own - DOCUMENTED - OF_PYTHON == named


def test_all_names_of_proton_c_that_are_used_are_named() -> None:
    amqp = (ROOT / "src" / "trailgate" / "live" / "brokers" / "amqp").glob("*.py")
    of_proton = {
        node.attr
        for path in amqp
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr.lower().startswith("pn_")
    }

    assert of_proton == NAMES["python-qpid-proton", "cproton"]
