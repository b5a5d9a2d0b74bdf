"""Read rows from Parquet files and JSON lines as Arrow batches, so that they can be written as records."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from trailgate.errors import DecodeError, OptionError, StorageError, Where
from trailgate.storage.files.addresses import Addresses, locate
from trailgate.storage.files.file_search import describe_empty_files, find_files
from trailgate.storage.files.opened_file import codec_of, is_empty_file

LOG: Final = logging.getLogger(__name__)
BLOCK: Final = 1 << 23  # bytes of JSON lines to read at once, and so the maximum of an object
ROWS: Final = 1 << 14
PORTION: Final = 1 << 20
SPECIAL: Final = "(?:NaN|-?Infinity)"
_QUOTED_SPECIAL: Final = re.compile(rf'"({SPECIAL})"'.encode())
PARQUET: Final = "Parquet"
JSON: Final = "JSON lines"
FORMS: Final[Mapping[str, str]] = MappingProxyType(
    {".parquet": PARQUET, ".jsonl": JSON, ".json": JSON}
)


def find_row_files(path: Addresses) -> tuple[tuple[str, str], ...]:
    """Find the Parquet and JSON files at one or several addresses, and determine each file's format from its suffix.

    Raises OptionError if a suffix is unknown.
    """
    found = find_files(path, "rows", "there is no file or folder")
    empty = [file.path for file in found if is_empty_file(file.path, file.size, "rows")]
    if empty:
        LOG.warning("%s", describe_empty_files(empty))
    return tuple((file.path, _form_of(file.path)) for file in found if file.size)


def _form_of(path: str) -> str:
    name = PurePosixPath(path)
    ending = name.suffix if codec_of(path) is None else PurePosixPath(name.stem).suffix
    form = FORMS.get(ending.lower())
    if form is None:
        known = ", ".join(FORMS)
        raise OptionError(
            f"{path} has none of the suffixes {known}", hint="Rows can only be read from such files"
        )
    return form


def read_rows(path: str, form: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the rows of a Parquet or JSON file that are to be written as records.

    JSON values are converted to the types of the schema. ``form`` is "Parquet" or "JSON lines".
    Raises StorageError if the file cannot be read, and DecodeError if it is not of this format.
    """
    try:
        yield from _READERS[form](path, schema)
    except OSError as error:
        problem = f"the file cannot be read: {error}"
        raise StorageError(problem, where=Where(source=path)) from error
    except pa.ArrowException as error:
        raise DecodeError(f"not {form}: {error}", where=Where(source=path)) from error


def _read_parquet(path: str, _: pa.Schema) -> Iterator[pa.RecordBatch]:
    store, path_in_store = locate(path)
    with store.open_input_file(path_in_store) as file:
        yield from pq.ParquetFile(file).iter_batches(ROWS)


def _read_json(path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    typed = pj.ParseOptions(explicit_schema=schema)
    reading = pj.ReadOptions(block_size=BLOCK)
    with _open_unpacked(path) as opened:
        names = sorted(set(_float_names(schema)))
        file = io.BufferedReader(_BareFloats(opened, names)) if names else opened
        if hasattr(pj, "open_json"):
            yield from pj.open_json(file, reading, typed)
        else:  # before pyarrow 20
            yield from pj.read_json(file, reading, typed).to_batches()


def _float_names(fields: pa.Schema | pa.StructType) -> Iterator[str]:
    """Yield the names of the columns of floats, and of lists of floats, also inside structs."""
    for field in fields:
        kind = field.type.value_type if pa.types.is_list(field.type) else field.type
        if pa.types.is_struct(kind):
            yield from _float_names(kind)
        elif pa.types.is_floating(kind):
            yield field.name


class _BareFloats(io.RawIOBase):
    """A file of JSON lines that removes the quotes around floats such as ``"NaN"`` while it is read.

    JSON has no number for NaN and infinity, so ``trailgate records`` prints them as text. pyarrow
    reads them as floats only without quotes.
    """

    def __init__(self, file: Any, names: Sequence[str]) -> None:
        super().__init__()
        self._file, self._pending, self._ready = file, b"", b""
        # "A": "NaN", or "A": [1.5, "NaN"]
        named = "|".join(re.escape(json.dumps(name, ensure_ascii=False)) for name in names)
        value = rf'"{SPECIAL}"|\[[^\[\]{{}}]*"{SPECIAL}"[^\[\]{{}}]*\]'
        self._pattern = re.compile(rf"((?:{named})\s*:\s*)({value})".encode())

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read bytes of the JSON file into ``buffer``. Returns their number; 0 at the end."""
        while not self._ready:
            portion = self._file.read(PORTION)
            # Only complete lines, because a value must not be cut in two.
            lines, end, rest = (self._pending + portion).rpartition(b"\n")
            self._pending, whole = (rest, lines + end) if portion else (b"", lines + end + rest)
            if not whole and not portion:
                return 0
            self._ready = self._pattern.sub(_without_quotes, whole)
        part, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


def _without_quotes(match: re.Match[bytes]) -> bytes:
    return match[1] + _QUOTED_SPECIAL.sub(rb"\1", match[2])


@contextmanager
def _open_unpacked(path: str) -> Iterator[Any]:
    store, path_in_store = locate(path)
    with store.open_input_stream(path_in_store, compression=codec_of(path)) as file:
        yield file


# By the format of the file.
_READERS: Final[Mapping[str, Callable[[str, pa.Schema], Iterator[pa.RecordBatch]]]] = (
    MappingProxyType({PARQUET: _read_parquet, JSON: _read_json})
)
