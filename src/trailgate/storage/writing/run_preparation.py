"""Prepare a run that writes to a trail: check that files may be added, and merge definitions.

``plan_target`` does all of this for a run that writes operations tables, and ``prepare_writing`` also
creates its staging folder. The result is a ``TrailTarget``.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from time import time_ns

from trailgate.definitions.defgen_layout import complete_table
from trailgate.errors import StorageError, Where
from trailgate.model.tables import Definitions
from trailgate.storage.files.addresses import Address, absolute
from trailgate.storage.files.manifest import Manifest, file_number_digits
from trailgate.storage.files.text_files import read_definitions_file
from trailgate.storage.writing.file_headers import build_file_header
from trailgate.storage.writing.segments import MAX_BYTES, WriteOptions, check_digits
from trailgate.storage.writing.trail_location import TrailLocation, TrailTarget, location_of
from trailgate.trail.format.file_header import FileHeader
from trailgate.trail.writing.file_headers import encode_file_start
from trailgate.trail.writing.trail_format import LEVEL_3, TrailFormat


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of writing operations tables to a trail.

    If ``seq_digits`` is None, file numbers have as many digits as in the existing trail, or 9.
    """

    definitions: Address | None = None
    max_bytes: int = MAX_BYTES
    seq_digits: int | None = None
    trail_format: TrailFormat = LEVEL_3


def prepare_writing(path: Address, options: TableOptions) -> TrailTarget:
    """Prepare a run that writes to the trail at a prefix, or begins a trail there.

    Returns its target, which can be pickled.

    The staging folder is created here. If it does not exist later, the run was cancelled.
    Definitions may be omitted if the trail already has them. Raises OptionError.
    """
    target = plan_target(path, options)
    target.location.backend.check()
    target.location.backend.create_staging(target.staging)
    return target


def plan_target(path: Address, options: TableOptions) -> TrailTarget:
    """Plan a run that writes to a trail, as ``prepare_writing`` does, but do not create its staging folder."""
    location, manifest = location_of(absolute(path)).recover()
    prefix = location.prefix
    digits = file_number_digits(prefix, manifest) if manifest is not None and manifest.files else 9
    write_options = WriteOptions(
        max_bytes=options.max_bytes,
        seq_digits=options.seq_digits or digits,
        trail_format=options.trail_format,
    )
    check_appendable(location, manifest, write_options)
    run = uuid.uuid4().hex
    header = build_file_header(prefix, write_options.seq_digits, time_ns() // 1000)
    tables = definitions_to_write(location, options.definitions)
    check_tables(tables, write_options)
    return TrailTarget(
        location=location,
        staging=location.backend.staging(f"write-{run}"),
        run=run,
        header=header,
        definitions=tables,
        options=write_options,
    )


def check_tables(definitions: Definitions, options: WriteOptions) -> None:
    """Raise EncodeError before a run writes, if the format of its trail cannot describe one of the tables."""
    encode_file_start(FileHeader(), options.trail_format, definitions)


def check_appendable(
    location: TrailLocation, manifest: Manifest | None, options: WriteOptions
) -> None:
    """Raise StorageError or OptionError if no files can be added to the trail.

    Its last file must have the bytes that the manifest states: a crash of the disk or an incomplete
    copy may have cut it, and after new files are added, that is harder to repair.
    """
    if manifest is None:
        if location.has_files():
            problem = "the trail has no manifest"
            hint = "Capture into a new trail: only trails of Trailgate can be added to"
            raise StorageError(problem, where=Where(source=location.prefix), hint=hint)
    elif manifest.files:
        check_digits(file_number_digits(location.prefix, manifest), options.seq_digits)
        location.check_last_file(manifest)


def definitions_to_write(
    location: TrailLocation, definitions: Address | Definitions | None
) -> Definitions:
    """Return the definitions of tables for a run that writes a trail: those in its ``.def`` file, merged with ``definitions``.

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
