"""Properties and definitions opened, and messages given by hand."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from trailgate.cobol.copybook.dialect import Dialect
from trailgate.cobol.copybook.layouts import Layout
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.definitions.defgen.sourcedefs import read_sourcedefs
from trailgate.errors import OptionError, StorageError, Where
from trailgate.messages.capture import Capture, MessageBatch
from trailgate.messages.parsers import defined_tables, parser_of
from trailgate.messages.properties.extract import CaptureRules, ExtractParameters, parse_extract
from trailgate.messages.properties.file import parse_properties
from trailgate.model.tables import Definitions
from trailgate.storage.files.addresses import read_whole
from trailgate.storage.files.copybooks import copy_members, read_source

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A capture, what its properties do not do (name, reason), and the parameter file's say."""

    capture: Capture
    notes: tuple[tuple[str, str], ...] = ()
    extract: ExtractParameters | None = None


def load_capture(
    properties: PathLike | None = None,
    extract: PathLike | None = None,
    rules: CaptureRules | None = None,
    definitions: PathLike | None = None,
) -> Capture:
    """Return a capture from a properties file, or from the Extract parameter file naming one.

    The definitions file is the one that the properties name, from the working folder, unless
    ``definitions`` names another; tables defined in the properties are added to its own.
    ``rules`` go before those of the parameter file.
    """
    return load(properties, extract, rules, definitions).capture


def load(
    properties: PathLike | None = None,
    extract: PathLike | None = None,
    rules: CaptureRules | None = None,
    definitions: PathLike | None = None,
) -> Loaded:
    """Return a capture with what is to be said about its files; see ``load_capture``."""
    parameters = None
    if extract is not None:
        parameters = parse_extract(_text(extract), source=str(extract))
    if properties is None:
        if parameters is None:
            raise OptionError("no properties file is named", hint="Give --properties or --extract")
        properties = parameters.properties_path
    parsed = parse_properties(_wanted(properties, "properties"), source=str(properties))
    files = _Files(None if definitions is None else str(definitions))
    options, tables = parser_of(parsed).setup(parsed, files)
    if rules is None:
        rules = CaptureRules() if parameters is None else parameters.rules
    capture = Capture(options, tables, rules, now=time.time_ns() // 1000)
    capture.check()
    return Loaded(capture, parsed.notes, parameters)


def load_definitions(properties: PathLike) -> Definitions:
    """Return the tables that a capture's properties define, by whatever parser."""
    parsed = parse_properties(_wanted(properties, "properties"), source=str(properties))
    return defined_tables(parsed, _Files(None))


@dataclass(frozen=True, slots=True)
class _Files:
    """Definitions where their paths say; ``instead`` is a definitions file put before theirs."""

    instead: str | None

    def chosen(self, path: str) -> str:
        return path if self.instead is None else self.instead

    def sourcedefs(self, path: str) -> Definitions:
        return read_sourcedefs(_wanted(path, "definitions"), source=path)

    def copybook(self, path: str, dialect: Dialect) -> list[Layout]:
        if self.instead is not None:
            problem = f"the definitions are those of the copybook {path}, not {self.instead}"
            raise OptionError(problem, hint="Leave the definitions file out")
        members = copy_members([Path(path).parent])
        text = read_source(_there(path, "copybook"))
        return read_copybook(text, source=path, dialect=dialect, member=members)


def _wanted(path: PathLike, what: str) -> bytes:
    try:
        return read_whole(path)
    except StorageError:
        hint = "Relative paths are from the working folder"
        where = Where(source=str(path))
        raise OptionError(f"the {what} file is not there", where=where, hint=hint) from None


def _there(path: str, what: str) -> Path:
    """Return the path of a local file that the properties name; raises OptionError without one."""
    if not Path(path).is_file():
        hint = "Relative paths are from the working folder"
        raise OptionError(f"the {what} file is not there", where=Where(source=path), hint=hint)
    return Path(path)


def _text(path: PathLike) -> str:
    return _wanted(path, "parameter").decode("utf-8", "replace")


def messages_from(bodies: Iterable[bytes | str], source: str = "messages") -> MessageBatch:
    """Return bodies as messages; each is taken for a file of its own, numbered from 0."""
    raw = [body.encode() if isinstance(body, str) else bytes(body) for body in bodies]
    bounds = np.zeros(len(raw) + 1, np.int64)
    np.cumsum([len(body) for body in raw], out=bounds[1:])
    return MessageBatch(
        data=pa.py_buffer(b"".join(raw)),
        starts=bounds[:-1],
        ends=bounds[1:],
        files=np.arange(len(raw), dtype=np.int64),
        offsets=np.zeros(len(raw), np.int64),
        headers=None,
        source=source,
    )
