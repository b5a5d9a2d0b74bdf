"""Addresses of files: local paths, and URIs of all stores that pyarrow.fs supports.

``locate`` turns an address into a file system and a path in it; everything that reads or writes
files uses it. For example, ``s3://bucket/dirdat/ot`` is the path ``bucket/dirdat/ot`` of an S3 file
system.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
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
        "abfs": "cloud_addresses:azure_files",
        "abfss": "cloud_addresses:azure_files",
        "gs": "cloud_addresses:google_files",
        "gcs": "cloud_addresses:google_files",
        "hdfs": "hdfs_client:hdfs_files",
    }
)
MOCK: Final = "mock"  # pyarrow's store for tests
SCHEMES: Final = frozenset({"s3", "viewfs", *OPENED})  # the URI schemes of stores


Address = str | os.PathLike[str]
WILD: Final = re.compile(r"[*?[]")
Addresses = Address | Iterable[Address]


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
    """List the URI schemes of addresses of stores, and ``others``, for an error: "abfs://, ..., s3://"."""
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


def make_addresses_absolute(value: Any, base: str) -> Any:
    """Make a file address, or a tuple of file addresses, absolute. Other values of an option are unchanged."""
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


def is_file(address: Address) -> bool:
    """Return True if a file exists at the address."""
    store, path = locate(address)
    return bool(store.get_file_info(path).type == fs.FileType.File)


def address_exists(address: Address) -> bool:
    """Return True if a file or folder exists at the address."""
    store, path = locate(address)
    return bool(store.get_file_info(path).type != fs.FileType.NotFound)


def make_address_speller(original: str, path: str) -> Callable[[str], str]:
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


def name_of(path: str) -> str:
    """Return the last part of a file's path or URI."""
    if URI.match(path):
        path = unquote(urlsplit(path).path)
    return path.rstrip("/").rpartition("/")[2]


def is_pattern(address: str) -> bool:
    """Return True if a file address contains a wildcard, so that it may be a pattern."""
    return WILD.search(locate(address)[1]) is not None


def addresses_of(sources: Addresses) -> tuple[str, ...]:
    """Check one or several file addresses, and return them as strings.

    Raises OptionError if there are none, or if one is empty.
    """
    several = (sources,) if isinstance(sources, str | os.PathLike) else tuple(sources)
    if not several:
        raise OptionError("the list of paths is empty")
    addresses = tuple(os.fspath(one) for one in several)
    if not all(addresses):
        raise OptionError("a path is empty", hint="Use a dot (.) for the working folder")
    return addresses


def folder_of(address: Address) -> str:
    """Return the address of the folder that contains a file."""
    text = str(address)
    path = locate(text)[1]
    return make_address_speller(text, path)(path.rpartition("/")[0]) or (
        "/" if path[:1] == "/" else "."
    )


def check_folder(folder: Address, subject: str) -> None:
    """Raise StorageError if no folder exists at an address. ``subject`` is the option that names it."""
    store, path = locate(folder)
    if store.get_file_info(path).type != fs.FileType.Directory:
        problem = f"{subject} names a folder that does not exist"
        raise StorageError(problem, where=Where(source=os.fspath(folder)))
