"""Read rows from Parquet files and JSON lines as Arrow batches, so that they can be written as records."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from trailgate.errors import DecodeError, OptionError, StorageError, Where
from trailgate.storage.files.addresses import locate
from trailgate.storage.files.file_search import Addresses, describe_empty_files, find_files
from trailgate.storage.files.opened_file import codec_of, is_empty_file

LOG: Final = logging.getLogger(__name__)
BLOCK: Final = 1 << 23  # bytes of JSON lines to read at once, and so the maximum of an object
ROWS: Final = 1 << 14
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
    """Read the rows of a Parquet or JSON file. JSON values are converted to the types of the schema.

    Raises StorageError or DecodeError.
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
    with _open_unpacked(path) as file:
        if hasattr(pj, "open_json"):
            yield from pj.open_json(file, reading, typed)
        else:  # before pyarrow 20
            yield from pj.read_json(file, reading, typed).to_batches()


@contextmanager
def _open_unpacked(path: str) -> Iterator[Any]:
    store, path_in_store = locate(path)
    with store.open_input_stream(path_in_store, compression=codec_of(path)) as file:
        yield file


# By the format of the file.
_READERS: Final[Mapping[str, Callable[[str, pa.Schema], Iterator[pa.RecordBatch]]]] = (
    MappingProxyType({PARQUET: _read_parquet, JSON: _read_json})
)
