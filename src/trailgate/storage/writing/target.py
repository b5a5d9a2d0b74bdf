"""Prepare to write to a trail: find its location, check that files may be added, merge its definitions.

Also builds the header of the files that a run writes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from trailgate.definitions.defgen import complete_table
from trailgate.errors import OptionError, StorageError, Where
from trailgate.model.tables import Definitions
from trailgate.storage.files.addresses import Address, is_stored, locate
from trailgate.storage.files.manifest import Manifest
from trailgate.storage.files.text_files import read_definitions_file
from trailgate.storage.publish.local_disk import LocalBackend
from trailgate.storage.writing.segments import WriteOptions
from trailgate.storage.writing.trail_location import TrailLocation
from trailgate.trail.format.file_header import FileHeader, MachineInfo, ProducerInfo, TrailInfo
from trailgate.trail.writing.file_headers import encode_file_start

PRODUCER: Final = "TRAILGATE"
APPENDED: Final = "Live captures and salvage can only write to local disks; captures of files and Spark also to stores"
HOLDS_TRAILS: Final = "dirdat"  # GoldenGate's folder for trails, below its home folder


def location_of(address: Address) -> TrailLocation:
    """Return the location of the trail to write to.

    Raises OptionError if the address is a folder, or if the store cannot be written.
    """
    text = os.fspath(address)
    if not is_stored(text):
        return local_trail(writable_prefix(text))
    from trailgate.storage.publish.store_folder import StoreBackend  # noqa: PLC0415  for stores
    from trailgate.storage.stores.writable_stores import writable_store  # noqa: PLC0415

    store, key = writable_store(text, "a trail")
    name = key.rpartition("/")[2]
    if not name or next(store.list_keys(f"{key}/"), None) is not None:
        hint = f"Name a prefix in it, such as {store.shown(f'{key}/ot' if name else f'{key}ot')}"
        raise OptionError(f"{text} is a folder, not a prefix of a trail", hint=hint)
    return TrailLocation(StoreBackend.of_trail(store, key), text)


def local_trail(prefix: str) -> TrailLocation:
    """Return the location of a trail on a local disk."""
    return TrailLocation(LocalBackend(prefix, f"{Path(prefix).name}.manifest.json"), prefix)


def local_prefix(address: Address) -> str:
    """Return the prefix of a local trail to write to as an absolute path. Raises OptionError otherwise."""
    return str(Path(writable_prefix(address)).absolute())


def writable_prefix(address: Address) -> str:
    """Return the path of a local trail's prefix. The address may begin with ``file:``.

    Raises OptionError if it is a folder, in an object store, or a path without a name.
    """
    problem = f"{address} is not a prefix of a trail on a local disk"
    if is_stored(address):
        raise OptionError(problem, hint=f"{APPENDED}. Name a prefix such as dirdat/ot")
    path = locate(address)[1]
    if not Path(path).name:
        raise OptionError(problem, hint="Name one, such as dirdat/ot")
    if path.endswith("/") or Path(path).is_dir():
        hint = f"Name a prefix in it, such as {Path(path) / 'ot'}"
        raise OptionError(f"{address} is a folder, not a prefix of a trail", hint=hint)
    return path


def check_tables(definitions: Definitions, options: WriteOptions) -> None:
    """Raise EncodeError if a table cannot be described in the trail's format."""
    encode_file_start(FileHeader(), options.trail_format, definitions)


def check_trail(location: TrailLocation, manifest: Manifest | None, options: WriteOptions) -> None:
    """Raise StorageError or OptionError if the run cannot add files to the trail.

    Its last file must have the bytes that the manifest states: a crash of the disk or an incomplete
    copy may have cut it, and after new files are added, that is harder to repair.
    """
    if manifest is None:
        if location.has_files():
            problem = "the trail has no manifest"
            hint = "Capture into a new trail: only trails of Trailgate can be added to"
            raise StorageError(problem, where=Where(source=location.prefix), hint=hint)
    elif manifest.files:
        digits = digits_of(location.prefix, manifest)
        if digits != options.seq_digits:
            raise OptionError(
                f"the trail's file names end in {digits} digits: --seq-digits {digits}"
            )
        location.check_last_file(manifest)


def digits_of(prefix: str, manifest: Manifest) -> int:
    """Return the number of digits at the end of the names of a trail's files, 6 or 9."""
    return len(manifest.files[-1].name) - len(Path(prefix).name)


def tables_of(location: TrailLocation, definitions: Address | Definitions | None) -> Definitions:
    """Return the definitions in the trail's ``.def`` file, merged with ``definitions``.

    Raises StorageError if both are missing.
    """
    if definitions is None:
        existing = location.definitions()
        if existing is not None:
            return existing
        problem = "a new trail needs definitions of its tables"
        where = Where(source=location.prefix)
        raise StorageError(problem, where=where, hint="Use the option definitions")
    if isinstance(definitions, Definitions):
        tables = Definitions(
            tuple(complete_table(table) for table in definitions), definitions.database
        )
    else:
        tables = read_definitions_file(definitions)
    return location.merge_definitions(tables)


def file_header(prefix: str, digits: int, now: int, process: str = "") -> FileHeader:
    """Build the header of a run's trail files, without the fields that publishing fills in.

    ``process`` is the name of an Extract group, by default TRAILGATE. ``now`` is in microseconds.
    """
    machine = MachineInfo(*os.uname())
    name = f"{prefix}{0:0{digits}}"
    trail = TrailInfo(creation_time=now, uri=_uri(machine.nodename, prefix), filename=name)
    return FileHeader(trail, machine, producer=ProducerInfo(name=process or PRODUCER))


def _uri(host: str, prefix: str) -> str:
    """Return a trail's URI as in GoldenGate's headers: ``uri:vm4:juliandyke:com::home:oracle:goldengate``.

    It consists of the host and GoldenGate's home folder (trail format §4.1): the folder above
    ``dirdat``, or else the trail's own folder.
    """
    path = "/" + prefix.partition("://")[2] if is_stored(prefix) else prefix
    folder = Path(path).absolute().parent
    home = folder.parent if folder.name == HOLDS_TRAILS else folder
    return ":".join(["uri", *host.split("."), "", *home.parts[1:]])
