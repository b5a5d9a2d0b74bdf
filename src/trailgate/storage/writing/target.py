"""The trail that a run writes: whether it may, the tables it will have, and where files are staged."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from trailgate.definitions.defgen.record_layout import complete
from trailgate.errors import OptionError, StorageError, Where
from trailgate.model.tables import Definitions
from trailgate.storage.files.addresses import URI, Address, locate
from trailgate.storage.files.checkpoint import checkpoint_path
from trailgate.storage.files.definitions_file import read_definitions, trail_definitions
from trailgate.storage.files.durable import remove_folder
from trailgate.storage.files.listing import files_on_disk
from trailgate.storage.files.manifest import Manifest
from trailgate.storage.writing.options import WriteOptions
from trailgate.storage.writing.segments import Encoding, SegmentWriter
from trailgate.trail.format.file_header import FileHeader, MachineInfo, ProducerInfo, TrailInfo
from trailgate.trail.writing.file_beginning import file_begin
from trailgate.trail.writing.writer import encode

PRODUCER: Final = "TRAILGATE"
HOLDS_TRAILS: Final = "dirdat"  # below the home folder


@dataclass(frozen=True, slots=True)
class Target:
    """A trail and the folder in which new files of it are staged; ``run`` names the run."""

    prefix: str
    staging: Path
    run: str
    header: FileHeader
    definitions: Definitions
    options: WriteOptions

    def writer(self, stem: str) -> SegmentWriter:
        """Return a writer of trail files into the staging folder."""
        begin = file_begin(self.header, self.options.trail_format, self.definitions)
        return SegmentWriter(self.staging, stem, begin, self.options.max_bytes)

    def encoding(self) -> Encoding:
        """Return what makes records of operations."""
        form = self.options.trail_format
        return partial(encode, trail_format=form, definitions=self.definitions)

    def discard(self) -> None:
        """Remove the staging folder."""
        remove_folder(self.staging)


def local_prefix(address: Address) -> str:
    """Return a prefix on a local disk as an absolute path; raises OptionError for anything else."""
    return str(Path(writable_prefix(address)).absolute())


def writable_prefix(address: Address) -> str:
    """Return the path of a prefix on a local disk; ``file:`` before it is understood.

    Raises OptionError for a folder, for an address in another store, and for a path without a name.
    """
    text = os.fspath(address)
    remote = URI.match(text) is not None and not text.startswith("file:")
    path = "" if remote else locate(address)[1]  # which would look for the store
    if not Path(path).name:
        problem = f"{address} is not a prefix of a trail on a local disk"
        raise OptionError(problem, hint="Trails are written to local disks, as dirdat/ot")
    if path.endswith("/") or Path(path).is_dir():
        hint = f"Name a prefix in it, as {Path(path) / 'ot'}"
        raise OptionError(f"{address} is a folder, not a prefix of a trail", hint=hint)
    return path


def check_tables(definitions: Definitions, options: WriteOptions) -> None:
    """Raise EncodeError where a file of that format cannot say what its tables are."""
    file_begin(FileHeader(), options.trail_format, definitions)


def check_trail(prefix: str, manifest: Manifest | None, options: WriteOptions) -> None:
    """Raise StorageError or OptionError where a trail cannot be added to."""
    if manifest is None:
        if files_on_disk(prefix) or checkpoint_path(prefix).exists():
            problem = "there is a trail without a manifest here"
            hint = "Capture into a new trail: only our own are added to"
            raise StorageError(problem, where=Where(source=prefix), hint=hint)
    elif manifest.files:
        digits = digits_of(prefix, manifest)
        if digits != options.seq_digits:
            raise OptionError(
                f"the trail's file names end in {digits} digits: --seq-digits {digits}"
            )


def digits_of(prefix: str, manifest: Manifest) -> int:
    """Return how many digits the numbers of a trail's files have."""
    return len(manifest.files[-1].name) - len(Path(prefix).name)


def tables_of(prefix: str, given: Address | Definitions | None) -> Definitions:
    """Return the definitions of a trail's tables with those given; raises where there are none."""
    existing = trail_definitions(prefix)
    if given is None:
        if existing is not None:
            return existing
        problem = "a new trail needs definitions of its tables"
        raise StorageError(problem, where=Where(source=prefix), hint="Give the option definitions")
    if isinstance(given, Definitions):
        tables = Definitions(tuple(complete(table) for table in given), given.database)
    else:
        tables = read_definitions(given)
    return tables if existing is None else existing.merged(tables)


def file_header(prefix: str, digits: int, now: int, process: str = "") -> FileHeader:
    """Return the header of all files of a run, but for what publishing fills in; ``process`` is an Extract group."""
    machine = MachineInfo(*os.uname())
    name = f"{prefix}{0:0{digits}}"
    trail = TrailInfo(creation_time=now, uri=_uri(machine.nodename, prefix), filename=name)
    return FileHeader(trail, machine, producer=ProducerInfo(name=process or PRODUCER))


def _uri(host: str, prefix: str) -> str:
    """Return the URI of a trail as headers have it: ``uri:vm4:juliandyke:com::home:oracle:goldengate``.

    That is the host and the home folder of the programs (trail format §4.1): the one above ``dirdat``, else the trail's own.
    """
    folder = Path(prefix).absolute().parent
    home = folder.parent if folder.name == HOLDS_TRAILS else folder
    return ":".join(["uri", *host.split("."), "", *home.parts[1:]])
