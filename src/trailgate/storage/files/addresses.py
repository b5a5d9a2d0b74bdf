"""Addresses of files: local paths, and URIs of any store that pyarrow.fs speaks to."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from pyarrow import fs

from trailgate.errors import OptionError, StorageError, Where, mask_logins
from trailgate.storage.files.accounts import azure_files, google_files
from trailgate.storage.files.hadoop import hdfs_files

URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
COLON: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
RENAME: Final = "Rename the file, or link to it by another name"
LOCAL: Final = fs.LocalFileSystem()
# Stores that are reached by the variables of their cloud's tools too, which pyarrow does not know, or without Java.
OPENED: Final[Mapping[str, Callable[[str], tuple[fs.FileSystem, str]]]] = MappingProxyType(
    {
        "abfs": azure_files,
        "abfss": azure_files,
        "gs": google_files,
        "gcs": google_files,
        "hdfs": hdfs_files,
    }
)
MOCK: Final = "mock"  # pyarrow's own store of tests
SCHEMES: Final = frozenset({"s3", "viewfs", *OPENED})  # of stores

Address = str | os.PathLike[str]


def locate(address: Address) -> tuple[fs.FileSystem, str]:
    """Return the file system of an address, and the path inside it."""
    text = os.fspath(address)
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
        # A path such as a:b is taken for the address of a store by pyarrow.
        return LOCAL, f"./{text}" if COLON.match(text) else text
    scheme = scheme_of(text)
    if scheme not in SCHEMES and scheme != MOCK:
        raise OptionError(
            f"{scheme}:// is not the protocol of a store",
            hint=f"Known are {known_schemes()}, and paths of files",
        )
    try:
        return _locate(text, os.getpid())
    except (OSError, ValueError, TypeError) as error:
        # Not ``from error``: its text has the login of the address.
        raise OptionError(mask_logins(f"cannot use the address {text}: {error}")) from None


def known_schemes(*others: str) -> str:
    """Return the schemes of addresses as a sentence lists them: these, and those of stores."""
    return ", ".join(f"{name}://" for name in (*others, *sorted(SCHEMES)))


@lru_cache(maxsize=4096)
def _locate(text: str, _process: int) -> tuple[fs.FileSystem, str]:
    """Return the store of an address in this process, and the path inside it."""
    store, path = OPENED.get(scheme_of(text), fs.FileSystem.from_uri)(text)
    return store, str(path)


def is_stored(address: Address) -> bool:
    """Return whether an address is one of a store, and not a path on a local disk."""
    text = os.fspath(address)
    return URI.match(text) is not None and not text.startswith("file:")


def scheme_of(address: str) -> str:
    """Return the scheme of an address of a store, as s3."""
    return address.partition("://")[0].casefold()


def is_absolute(address: Address) -> bool:
    """Return whether an address means the same in every folder."""
    text = os.fspath(address)
    return URI.match(text) is not None or text.startswith(("file:", "/"))


def absolute(address: Address, base: Address | None = None) -> str:
    """Return an address that means the same in every process: a relative path is one from ``base``.

    Without a base that is the working folder; a base may be an address of any store.
    """
    text = os.fspath(address)
    if is_absolute(text):
        return text
    folder = str(Path.cwd()) if base is None else absolute(base)
    inside = text.removeprefix("./")
    return folder if inside in ("", ".") else address_in(folder, inside)


def absolute_value(value: Any, base: str) -> Any:
    """Return the value of an option that names a file or several, or of none, with absolute paths."""
    if isinstance(value, tuple):
        return tuple(absolute(path, base) for path in value)
    return absolute(value, base) if isinstance(value, str | os.PathLike) else value


def address_in(folder: str, inside: str) -> str:
    """Return the address of what is in a folder, which may be an address with parameters after its path."""
    if not is_stored(folder):
        return f"{folder.rstrip('/')}/{inside}"
    path, mark, parameters = folder.partition("?")
    return f"{path.rstrip('/')}/{quote(inside, safe='/*')}{mark}{parameters}"


def read_whole(address: Address, what: str = "file") -> bytes:
    """Return a file's bytes; raises StorageError where it cannot be read, which calls it ``what``."""
    store, path = locate(address)
    try:
        with store.open_input_file(path) as file:
            return bytes(file.read())
    except OSError as error:
        where = Where(source=str(address))
        raise StorageError(f"cannot read the {what}: {error}", where=where) from error


def is_file(address: Address) -> bool:
    """Return whether there is a file."""
    store, path = locate(address)
    return bool(store.get_file_info(path).type == fs.FileType.File)


def is_there(address: Address) -> bool:
    """Return whether there is anything, a file or a folder."""
    store, path = locate(address)
    return bool(store.get_file_info(path).type != fs.FileType.NotFound)


def bytes_if_present(store: fs.FileSystem, path: str) -> bytes | None:
    """Return the bytes of a file in a store; None where there is no such file."""
    if store.get_file_info(path).type != fs.FileType.File:
        return None
    with store.open_input_file(path) as file:
        return bytes(file.read())


def addresses_like(asked: str, path: str) -> Callable[[str], str]:
    """Return what turns paths inside a store into addresses like the one asked for, at ``path``."""
    if not is_stored(asked):
        return str
    url = urlsplit(asked)
    # What a store calls its path begins with what the address has before its own, as a bucket or a container.
    above = path.rstrip("/").removesuffix(unquote(url.path).strip("/")).rstrip("/")
    head = f"{url.scheme}://{url.netloc}"
    tail = f"?{url.query}" if url.query else ""

    def spelled(other: str) -> str:
        inside = other.removeprefix(above).lstrip("/")
        return f"{head}/{quote(inside)}{tail}" if inside else f"{head}{tail}"

    return spelled


def _entries(store: fs.FileSystem, folder: str) -> list[fs.FileInfo]:
    """Return what is in a folder, if it is there."""
    if store.type_name != "gcs":
        here: list[fs.FileInfo] = store.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        return here
    # pyarrow does not list a folder of Google's store in which there are only objects, and no object of its own name.
    below = store.get_file_info(fs.FileSelector(folder, allow_not_found=True, recursive=True))
    above = f"{folder.rstrip('/')}/"
    found: dict[str, fs.FileInfo] = {}
    for entry in below:
        name, deeper, _ = entry.path.removeprefix(above).partition("/")
        path = above + name
        if deeper or path not in found:
            found[path] = fs.FileInfo(path, fs.FileType.Directory) if deeper else entry
    return list(found.values())


def list_names(store: fs.FileSystem, folder: str) -> tuple[list[fs.FileInfo], int]:
    """Return what is in a folder, if it is there, without names that are not UTF-8, and how many those are."""
    found = []
    odd = 0
    for entry in _entries(store, folder):
        try:
            entry.path.encode()
        except UnicodeDecodeError:
            odd += 1
        else:
            found.append(entry)
    return found, odd


def name_of(path: str) -> str:
    """Return the last part of a path, or of an address of a store."""
    if URI.match(path):
        path = unquote(urlsplit(path).path)
    return path.rstrip("/").rpartition("/")[2]
