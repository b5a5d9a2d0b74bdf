"""Where Iceberg tables are: a local folder with its own catalog, or a catalog of pyiceberg's configuration.

An address with a slash is a folder. ``iceberg:lake/`` has the table HR.JOBS in ``lake/hr/jobs``,
and its catalog is the SQLite file ``lake/catalog.db``, in which the catalog's name is "lake". Any
other address is a catalog that ``~/.pyiceberg.yaml`` or the environment configures, with an
optional namespace: in ``iceberg:prod.shop`` HR.JOBS is the table ``shop.hr.jobs`` of the catalog
"prod". An address of a single table has the same form, such as ``iceberg:lake/hr/jobs``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from pyiceberg.catalog import Catalog, list_catalogs, load_catalog
from pyiceberg.catalog.sql import SqlCatalog

from trailgate.errors import OptionError, StorageError, Where, did_you_mean

CATALOG_FILE: Final = "catalog.db"
FOLDER_CATALOG: Final = "lake"
CONFIGURATION: Final = "https://py.iceberg.apache.org/configuration/"
IN_STORES: Final = "Configure a catalog with a warehouse there in ~/.pyiceberg.yaml, and use its name: iceberg:NAME"
REFUSED: Final = frozenset("?#")
SQLITE_SECONDS: Final = 30  # to wait for a lock of the catalog's file


@dataclass(frozen=True, slots=True)
class IcebergPlace:
    """An Iceberg catalog, and the first parts of the names of tables in it.

    Without ``folder``, pyiceberg's configuration defines the catalog.
    """

    name: str
    folder: Path | None = None
    root: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((self.name, *self.root)) if self.folder is None else f"{self.folder}/"

    @property
    def exists(self) -> bool:
        """Whether the catalog exists. A configured catalog is taken to exist."""
        return self.folder is None or (self.folder / CATALOG_FILE).is_file()

    def open(self) -> Catalog:
        """Open the catalog.

        A folder's own catalog is created if it does not exist. Raises OptionError if pyiceberg's
        configuration lacks its name.
        """
        if self.folder is None:
            if self.name not in list_catalogs():
                near = did_you_mean(self.name, list_catalogs())
                hint = f"{near} A folder has a slash, as in iceberg:{self.name}/. {CONFIGURATION} describes catalogs".strip()
                raise OptionError(f"pyiceberg has no catalog {self.name!r}", hint=hint)
            return load_catalog(self.name)
        folder = self.folder.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        uri = f"sqlite:///{quote(str(folder / CATALOG_FILE))}?timeout={SQLITE_SECONDS}"
        return SqlCatalog(FOLDER_CATALOG, uri=uri, warehouse=f"file://{folder}")


def check_path(path: str) -> None:
    """Raise OptionError if a path has a character with which pyiceberg writes to a different path."""
    bad = [sign for sign in path if sign in REFUSED or not sign.isprintable()]
    if bad:
        problem = f"pyiceberg cannot write a table to a path with {bad[0]!r}: {path}"
        raise OptionError(problem, hint="Name another folder or table")


def find_iceberg_place(address: str) -> IcebergPlace:
    """Return the place of an address without its scheme. Raises OptionError."""
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
    """Return the place and the complete name of a single table, such as ``lake/hr/jobs``. Raises StorageError if no folder of the path has a catalog."""
    place = find_iceberg_place(address)
    if place.folder is None:
        return IcebergPlace(place.name), place.root
    path = place.folder
    for folder in path.parents:
        if (folder / CATALOG_FILE).is_file():
            return IcebergPlace(FOLDER_CATALOG, folder), path.relative_to(folder).parts
    problem = f"there is no Iceberg table here: no folder above it has a file {CATALOG_FILE}"
    raise StorageError(problem, where=Where(source=address))
