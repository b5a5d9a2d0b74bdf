"""``trailgate gendef``: write the definitions file of a capture's tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from trailgate.errors import OptionError, Where
from trailgate.options import Flag
from trailgate.storage.files.durable import convert_write_errors, replace_whole_file
from trailgate.terminal import output
from trailgate.terminal.flags import Properties, takes

if TYPE_CHECKING:
    from trailgate.model.tables import Definitions


@takes
def command(
    *,
    properties: Properties,
    to: Annotated[Path | None, Flag("FILE"), "The file to write; default stdout."] = None,
    force: Annotated[bool, "Overwrite an existing file."] = False,
) -> None:
    """Write the definitions file of a capture's tables."""
    from trailgate.definitions.copybook_tables import format_definitions
    from trailgate.jobs.capture.loading import load_definitions

    definitions = load_definitions(properties)
    text = format_definitions(definitions)
    with output.quiet_pipe():
        if to is None:
            sys.stdout.buffer.write(text)
            sys.stdout.flush()
        else:
            _write(to, text, force=force)
            _print(to, definitions)


def _write(path: Path, text: bytes, *, force: bool) -> None:
    if path.exists() and not force:
        hint = "Use --force to overwrite it"
        raise OptionError("the file exists already", where=Where(source=str(path)), hint=hint)
    with convert_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole_file(path, text)


def _print(path: Path, definitions: Definitions) -> None:
    for table in definitions:
        keys = ", ".join(column.name for column in table.columns if column.key) or "all columns"
        print(
            f"{table.name}: {len(table.columns)} columns, {table.record_length} bytes, key {keys}"
        )
    count = len(definitions)
    print(f"{path}: {count} table{'' if count == 1 else 's'}")
