"""Find Iceberg tables: in a local folder with its own catalog, or in a configured catalog.

An address with a slash is a folder. ``iceberg:lake/`` has the table HR.JOBS in ``lake/hr/jobs``,
and its catalog is the SQLite file ``lake/catalog.db``, in which the catalog's name is "lake". Any
other address is a catalog that ``~/.pyiceberg.yaml`` or the environment configures, with an
optional namespace: in ``iceberg:prod.shop`` HR.JOBS is the table ``shop.hr.jobs`` of the catalog
"prod". An address of a single table has the same form, such as ``iceberg:lake/hr/jobs``.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

from pyiceberg.catalog import Catalog, list_catalogs, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table

from trailgate.errors import (
    OptionError,
    StorageError,
    TargetLockedError,
    Where,
    did_you_mean,
)

CATALOG_FILE: Final = "catalog.db"
FOLDER_CATALOG: Final = "lake"
CONFIGURATION: Final = "https://py.iceberg.apache.org/configuration/"
IN_STORES: Final = "Configure a catalog with a warehouse there in ~/.pyiceberg.yaml, and use its name: iceberg:NAME"
REFUSED: Final = frozenset("?#")
# How long SQLite waits for a lock of the catalog's file. Apply itself tries again, for --patience.
SQLITE_SECONDS: Final = 2
CATALOG_TABLES: Final = frozenset({"iceberg_tables", "iceberg_namespace_properties"})
LOCKED: Final = "another process has locked the catalog"
LOCKED_HINT: Final = "Wait until it ends; apply --patience SECONDS tries for longer"
MOVED: Final = (
    "Iceberg stores absolute paths. Move the folder back, or apply the trail to a new folder"
)
OTHER_FOLDER: Final = "Name a new folder, or one that apply has written: iceberg:FOLDER/"
TABLE_NAME: Final = "A table in a folder's catalog is iceberg:FOLDER/NAMESPACE/TABLE, as in iceberg:lake/hr/jobs; one in a configured catalog is iceberg:CATALOG.NAMESPACE.TABLE"


@dataclass(frozen=True, slots=True)
class IcebergPlace:
    """An Iceberg catalog, and the first parts of the names of tables in it (``root``).

    If ``folder`` is None, pyiceberg's configuration defines the catalog ``name``; otherwise the
    folder contains the tables and their catalog.
    """

    name: str
    folder: Path | None = None
    root: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((self.name, *self.root)) if self.folder is None else f"{self.folder}/"

    @property
    def exists(self) -> bool:
        """Whether the Iceberg catalog exists. A configured catalog is assumed to exist."""
        return self.folder is None or (self.folder / CATALOG_FILE).exists()

    def check_name(self) -> None:
        """Raise OptionError if pyiceberg's configuration lacks the name of the catalog."""
        if self.folder is None and self.name not in list_catalogs():
            near = did_you_mean(self.name, list_catalogs())
            hint = f"{near} A folder has a slash, as in iceberg:{self.name}/. {CONFIGURATION} describes catalogs".strip()
            raise OptionError(f"pyiceberg has no catalog {self.name!r}", hint=hint)

    def open(self) -> Catalog:
        """Open the Iceberg catalog.

        A folder's own catalog is created if it does not exist. Raises OptionError if pyiceberg's
        configuration lacks its name, TargetLockedError if another process has locked the folder's
        catalog, and StorageError if the catalog's file is not a catalog.
        """
        self.check_name()
        if self.folder is None:
            return load_catalog(self.name)
        folder = self.folder.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        _check_catalog_file(folder / CATALOG_FILE)
        uri = f"sqlite:///{quote(str(folder / CATALOG_FILE))}?timeout={SQLITE_SECONDS}"
        return SqlCatalog(FOLDER_CATALOG, uri=uri, warehouse=f"file://{folder}")


def load_iceberg_table(
    place: IcebergPlace, catalog: Catalog, name: tuple[str, ...]
) -> Table | None:
    """Load an Iceberg table by its complete name, or return None if it does not exist.

    Raises StorageError if the folder of the catalog was moved or copied. A catalog contains the
    absolute paths of its tables, so a copy would write to the tables of the original.
    """
    try:
        table = catalog.load_table(name)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None
    except FileNotFoundError as error:
        problem = f"a file that the catalog names does not exist: {error}"
        raise StorageError(problem, where=Where(source=str(place)), hint=MOVED) from None
    if place.folder is not None:
        metadata = Path(urlsplit(table.metadata_location).path)
        own = place.folder.joinpath(*name, "metadata", metadata.name)
        if own.exists() and not (metadata.exists() and own.samefile(metadata)):
            problem = (
                f"the folder was moved or copied: its catalog names the table's file {metadata}"
            )
            raise StorageError(problem, where=Where(source=str(own)), hint=MOVED)
    return table


def check_path(path: str) -> None:
    """Raise OptionError if a path has a character with which pyiceberg writes to a different path."""
    bad = [sign for sign in path if sign in REFUSED or not sign.isprintable()]
    if bad:
        problem = f"pyiceberg cannot write a table to a path with {bad[0]!r}: {path}"
        raise OptionError(problem, hint="Name another folder or table")


def _check_catalog_file(path: Path) -> None:
    """Raise StorageError if an existing SQLite file is not an Iceberg catalog, and TargetLockedError if it is locked.

    pyiceberg itself would add its tables to any SQLite file, and wait for each lock twice.
    """
    if not path.exists():
        return
    where = Where(source=str(path))
    try:
        with closing(sqlite3.connect(path, timeout=SQLITE_SECONDS)) as file:
            rows = file.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except sqlite3.Error as error:
        if error.sqlite_errorname == "SQLITE_BUSY":
            raise TargetLockedError(LOCKED, where=where, hint=LOCKED_HINT) from None
        problem = f"the file of the folder's catalog cannot be opened with SQLite: {error}"
        raise StorageError(problem, where=where, hint=OTHER_FOLDER) from None
    names = {name for (name,) in rows}
    if names and not names & CATALOG_TABLES:
        problem = f"the SQLite file has other tables than those of an Iceberg catalog: {', '.join(sorted(names))}"
        raise StorageError(problem, where=where, hint=OTHER_FOLDER)


def find_iceberg_place(address: str) -> IcebergPlace:
    """Find the Iceberg catalog of an address without its scheme, such as ``prod.shop`` or ``lake/``. Raises OptionError."""
    if "://" in address:
        problem = f"an Iceberg catalog cannot be a file in a store: {address}"
        raise OptionError(problem, hint=IN_STORES)
    if "/" in address:
        check_path(str(Path(address).absolute()))
        return IcebergPlace(FOLDER_CATALOG, Path(address))
    name, *root = address.split(".")
    if not all((name, *root)):
        problem = f"{address!r} is not the name of a catalog, nor a folder"
        raise OptionError(problem, hint="As in iceberg:prod, iceberg:prod.shop or iceberg:lake/")
    return IcebergPlace(name, None, tuple(root))


def find_iceberg_table(address: str) -> tuple[IcebergPlace, tuple[str, ...]]:
    """Find the catalog and the complete name of a single Iceberg table by its address, such as ``lake/hr/jobs``.

    Raises StorageError if no folder of the path has a catalog, and OptionError if the name of the
    table has fewer than two parts.
    """
    place = find_iceberg_place(address)
    name = place.root
    if place.folder is not None:
        path = place.folder
        found = next((one for one in (path, *path.parents) if (one / CATALOG_FILE).exists()), None)
        if found is None:
            problem = (
                f"there is no Iceberg table here: no folder above it has a file {CATALOG_FILE}"
            )
            raise StorageError(problem, where=Where(source=address))
        place, name = IcebergPlace(FOLDER_CATALOG, found), path.relative_to(found).parts
    if len(name) < 2:
        problem = f"{address!r} is not the address of an Iceberg table: its name needs a namespace"
        raise OptionError(problem, hint=TABLE_NAME)
    return IcebergPlace(place.name, place.folder), name
