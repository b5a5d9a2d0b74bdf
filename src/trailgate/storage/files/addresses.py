"""Addresses of files: local paths, and URIs of all stores that pyarrow.fs supports.

``locate`` turns an address into a file system and a path in it; everything that reads or writes
files uses it. For example, ``s3://bucket/dirdat/ot`` is the path ``bucket/dirdat/ot`` of an S3 file
system.
"""

from __future__ import annotations

import codecs
import os
import re
import string
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from pyarrow import fs

from trailgate.errors import OptionError, StorageError, Where, mask_logins

# s3://, but not C:// (a drive is one letter)
URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
# s3: or file:, with or without slashes after it
COLON: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
RENAME: Final = "Rename the file, or link to it by another name"
LOCAL: Final = fs.LocalFileSystem()
# Stores for which pyarrow is not enough: it does not use the environment variables of the clouds' own
# tools, and needs Java for HDFS. The module and function, imported when a store is used.
OPENED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "abfs": "store_addresses:azure_files",
        "abfss": "store_addresses:azure_files",
        "gs": "store_addresses:google_files",
        "gcs": "store_addresses:google_files",
        "hdfs": "hadoop:hdfs_files",
    }
)
MOCK: Final = "mock"  # pyarrow's store for tests
SCHEMES: Final = frozenset({"s3", "viewfs", *OPENED})  # the URI schemes of stores

_WIDE_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "UTF-32"),  # before UTF-16, whose mark is its first two bytes
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_ASCII: Final = bytes(range(0x80))
# The same bytes in all code pages of EBCDIC. The blank is @ in ASCII, all others are above ASCII.
_EBCDIC_WORDS: Final = f"{string.ascii_letters}{string.digits} ".encode("cp037")

Address = str | os.PathLike[str]


def locate(address: Address) -> tuple[fs.FileSystem, str]:
    """Return pyarrow's file system of an address, and the path in it. Raises OptionError."""
    text = os.fspath(address)
    # file:/x, file:///x and file://x all mean the path /x.
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    if "\0" in text:
        raise OptionError(f"the path {text!r} has a zero byte")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            raise OptionError(f"the path {shown} is not UTF-8", hint=RENAME) from None
    if not URI.match(text):
        # pyarrow would take a path such as a:b for the URI of a store.
        return LOCAL, f"./{text}" if COLON.match(text) else text
    scheme = scheme_of(text)
    if scheme not in SCHEMES and scheme != MOCK:
        raise OptionError(
            f"{scheme}:// is not the scheme of a known store",
            hint=f"Known: {list_schemes()}, and file paths",
        )
    try:
        return _locate(text, os.getpid())
    except (OSError, ValueError, TypeError) as error:
        # Not ``from error``, since its text contains the address with its login.
        raise OptionError(mask_logins(f"cannot use the address {text}: {error}")) from None


def list_schemes(*others: str) -> str:
    """List ``others`` and the URI schemes of all known stores for an error: "abfs://, ..., s3://"."""
    return ", ".join(f"{name}://" for name in (*others, *sorted(SCHEMES)))


@lru_cache(maxsize=4096)
def _locate(text: str, _process: int) -> tuple[fs.FileSystem, str]:
    """Return the file system of an address, and the path in it. The result is cached per process.

    A forked process must not use the connections of its parent, hence the second parameter.
    """
    module, _, name = OPENED.get(scheme_of(text), "").partition(":")
    if module:
        open_store = getattr(import_module(f"trailgate.storage.files.{module}"), name)
    else:
        open_store = fs.FileSystem.from_uri
    store, path = open_store(text)
    return store, str(path)


def is_stored(address: Address) -> bool:
    """Return True for the address of a store (``s3://...``), False for a local path or ``file:``."""
    text = os.fspath(address)
    return URI.match(text) is not None and not text.startswith("file:")


def scheme_of(address: str) -> str:
    """Return the scheme of a URI, for example "s3"."""
    return address.partition("://")[0].casefold()


def is_absolute(address: Address) -> bool:
    """Return True if a file address means the same file in every working directory."""
    text = os.fspath(address)
    return URI.match(text) is not None or text.startswith(("file:", "/"))


def absolute(address: Address, base: Address | None = None) -> str:
    """Make a file address absolute.

    A relative path is relative to ``base``, or to the working directory.

    The base may be an address in any store.
    """
    text = os.fspath(address)
    if is_absolute(text):
        return text
    folder = str(Path.cwd()) if base is None else absolute(base)
    inside = text.removeprefix("./")
    return folder if inside in ("", ".") else address_in(folder, inside)


def make_value_absolute(value: Any, base: str) -> Any:
    """Make the paths in an option's value absolute.

    The value may be a path or a tuple of paths; anything else is unchanged.
    """
    if isinstance(value, tuple):
        return tuple(absolute(path, base) for path in value)
    return absolute(value, base) if isinstance(value, str | os.PathLike) else value


def address_in(folder: str, inside: str) -> str:
    """Return the address of a path inside a folder, whose address may end with parameters.

    Example: for ``s3://b/x?region=r`` and ``1``, it is ``s3://b/x/1?region=r``.
    """
    if not is_stored(folder):
        return f"{folder.rstrip('/')}/{inside}"
    path, mark, parameters = folder.partition("?")
    return f"{path.rstrip('/')}/{quote(inside, safe='/*')}{mark}{parameters}"


def read_file(address: Address, subject: str = "file") -> bytes:
    """Read the file at an address. Raises StorageError, in which the file is called ``subject``."""
    store, path = locate(address)
    try:
        with store.open_input_file(path) as file:
            return bytes(file.read())
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        reason = "the file does not exist" if missing else error
        where = Where(source=str(address))
        raise StorageError(f"cannot read the {subject}: {reason}", where=where) from error


def read_text_file(address: Address, subject: str = "file") -> bytes:
    """Read a text file as bytes. Its encoding must be UTF-8, or another one in which ASCII characters are single bytes.

    Raises StorageError if the file cannot be read or is in UTF-16, UTF-32 or EBCDIC. Editors on
    Windows and binary transfers from a mainframe make such files.
    """
    raw = read_file(address, subject)
    name = _other_encoding(raw)
    if name:
        hint = f"Save it as UTF-8, for example with iconv -f {name} -t UTF-8"
        where = Where(source=str(address))
        raise StorageError(f"the {subject} is {name} text, not UTF-8", where=where, hint=hint)
    return raw


def read_source(address: Address, subject: str = "copybook") -> str:
    """Read a text file such as a copybook as UTF-8, or as Latin-1 if it is not UTF-8.

    Raises StorageError as ``read_text_file`` does; its text calls the file ``subject``.
    """
    raw = read_text_file(address, subject)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _other_encoding(raw: bytes) -> str:
    """Return the encoding of a text that is not based on ASCII (UTF-16, UTF-32 or EBCDIC), otherwise "".

    Examples: "UTF-16LE" and "IBM1047". EBCDIC is a guess from the frequency of its bytes.
    """
    for mark, name in _WIDE_MARKS:
        if raw.startswith(mark):
            return name
    if 0 in raw[:2]:
        return "UTF-16BE" if raw[:1] == b"\0" else "UTF-16LE"
    return "IBM1047" if _is_ebcdic(raw) else ""


def _is_ebcdic(raw: bytes) -> bool:
    """Return whether a text consists mostly of letters, digits and blanks of EBCDIC.

    Cyrillic or Japanese text without blanks has many of these bytes too, but also many others above
    ASCII: in Windows-1251, half of all letters.
    """
    words = len(raw) - len(raw.translate(None, _EBCDIC_WORDS))
    others = len(raw.translate(None, _EBCDIC_WORDS + _ASCII))
    return b" " not in raw and 2 * words > len(raw) and 4 * others < words and not _is_utf_8(raw)


def _is_utf_8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_file(address: Address) -> bool:
    """Return True if a file exists at the address."""
    store, path = locate(address)
    return bool(store.get_file_info(path).type == fs.FileType.File)


def address_exists(address: Address) -> bool:
    """Return True if a file or folder exists at the address."""
    store, path = locate(address)
    return bool(store.get_file_info(path).type != fs.FileType.NotFound)


def read_if_exists(store: fs.FileSystem, path: str) -> bytes | None:
    """Read a file in a store, or return None if it does not exist."""
    if store.get_file_info(path).type != fs.FileType.File:
        return None
    with store.open_input_file(path) as file:
        return bytes(file.read())


def address_speller(original: str, path: str) -> Callable[[str], str]:
    """Return a function that converts paths in a store to addresses in the form of ``original``.

    ``path`` is the store's path for ``original``. Example: for ``s3://b/x?region=r`` and ``b/x``, the
    path ``b/x/1`` becomes ``s3://b/x/1?region=r``.
    """
    if not is_stored(original):
        return str
    url = urlsplit(original)
    # A store's path may start with a bucket or container, which the address has as its host.
    above = path.rstrip("/").removesuffix(unquote(url.path).strip("/")).rstrip("/")
    head = f"{url.scheme}://{url.netloc}"
    tail = f"?{url.query}" if url.query else ""

    def spell(other: str) -> str:
        inside = other.removeprefix(above).lstrip("/")
        return f"{head}/{quote(inside)}{tail}" if inside else f"{head}{tail}"

    return spell


def _entries(store: fs.FileSystem, folder: str) -> list[fs.FileInfo]:
    """Return the entries of a local folder or a folder in a store, or [] if it does not exist."""
    if store.type_name != "gcs":
        here: list[fs.FileInfo] = store.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        return here
    # pyarrow does not list folders of Google Cloud Storage that only exist as prefixes of objects, so
    # they are derived from a recursive listing.
    below = store.get_file_info(fs.FileSelector(folder, allow_not_found=True, recursive=True))
    above = f"{folder.rstrip('/')}/"
    entries_by_path: dict[str, fs.FileInfo] = {}
    for entry in below:
        name, deeper, _ = entry.path.removeprefix(above).partition("/")
        path = above + name
        if deeper or path not in entries_by_path:
            entries_by_path[path] = fs.FileInfo(path, fs.FileType.Directory) if deeper else entry
    return list(entries_by_path.values())


def list_names(store: fs.FileSystem, folder: str) -> tuple[list[fs.FileInfo], int]:
    """List the entries of a folder whose names are UTF-8, and count the other names."""
    names = []
    odd = 0
    for entry in _entries(store, folder):
        try:
            entry.path.encode()
        except UnicodeDecodeError:
            odd += 1
        else:
            names.append(entry)
    return names, odd


def list_matching(store: fs.FileSystem, folder: str, pattern: re.Pattern[str]) -> list[fs.FileInfo]:
    """List the entries of a folder whose names match a pattern and are UTF-8.

    In a local folder only the matching files are examined, not the thousands of other files that
    may be beside a trail.
    """
    try:
        names = os.listdir(folder) if store.type_name == "local" else None  # noqa: PTH208  names only
    except OSError:  # pyarrow words the error
        names = None
    if names is None:
        entries = list_names(store, folder)[0]
        return [entry for entry in entries if pattern.fullmatch(entry.base_name)]
    matching = [name for name in names if pattern.fullmatch(name) and _is_utf8(name)]
    found = store.get_file_info([f"{folder.rstrip('/')}/{name}" for name in matching])
    return [info for info in found if info.type != fs.FileType.NotFound]


def _is_utf8(name: str) -> bool:
    """Return whether the bytes of a file name are UTF-8.

    Otherwise Python has escaped them, for example 0xFF as U+DCFF.
    """
    return name.encode(errors="ignore").decode() == name


def name_of(path: str) -> str:
    """Return the last part of a file's path or URI."""
    if URI.match(path):
        path = unquote(urlsplit(path).path)
    return path.rstrip("/").rpartition("/")[2]
