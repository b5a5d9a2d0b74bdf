"""The client of HDFS and a read-only file system on it, through hdfs-native, which speaks the HDFS protocols without Java.

``ask`` sends each request with the client of this process; a refused request becomes a
``RefusedError`` with one line of text and a hint. ``HadoopFiles`` is a read-only pyarrow file
system on top of it. An address names a namenode, a name service of ``HADOOP_CONF_DIR``, or neither:
``hdfs://host:8020/dirdat/ot``, ``hdfs://cluster/dirdat/ot``, or ``hdfs:///dirdat/ot`` for the
cluster in ``fs.defaultFS``.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from io import RawIOBase
from types import MappingProxyType
from typing import Any, Final, NoReturn
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from trailgate.errors import MissingDependencyError, OptionError
from trailgate.storage.files.cloud_addresses import RefusalTexts, parse_parameters

# The client's errors look as Rust prints them:
# RPCError("org.apache.hadoop.x.YException", "text\n\tat a.place(...)").
PRINTED: Final = re.compile(r"(?P<kind>\w+)\((?P<texts>.*)\)", re.DOTALL)
# A string as the Java program prints it: "a\"b", with \n and \t for line feeds and tabs
QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
BACKED: Final = re.compile(r"\\(.)")
NAMES: Final = "Name the namenode, for example hdfs://host:8020/path, or set HADOOP_CONF_DIR to the folder of core-site.xml and hdfs-site.xml"
UNREACHED: Final = "OSError"  # the client's own exception for connection errors
SPACE: Final = "Have the quota raised, or delete files that are not needed"
# Hints by the name of the namenode's exception, or of the client's own.
HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AccessControlException": "If the cluster has no Kerberos, HADOOP_USER_NAME sets the user",
        "SafeModeException": "Run it again when hdfs dfsadmin -safemode get answers OFF",
        "StandbyException": "Name the active namenode, or the name service of hdfs-site.xml, with HADOOP_CONF_DIR set to its folder",
        "NSQuotaExceededException": SPACE,
        "DSQuotaExceededException": SPACE,
        "QuotaByStorageTypeExceededException": SPACE,
        "InvalidPathException": "Names in HDFS have no colon",
        "NoDatanodes": "See hdfs dfsadmin -report: a datanode must be live, have free space, and be reachable from here",
        "InvalidArgument": NAMES,
        UNREACHED: NAMES,
    }
)
# The default port of a namenode's RPC.
PORT: Final = 8020
# The attempts to reach a single namenode, which take 15 seconds together. For name services,
# hdfs-site.xml states the attempts.
TRIED: Final = "4"
OF_A_NAMENODE: Final = MappingProxyType({"dfs.client.failover.max.attempts": TRIED})
KEEP: Final = 2**64 - 1  # -1 in Hadoop's Java: leave the access time unchanged
# The permissions that `hdfs dfs -mkdir` gives with the usual umask of 022.
FOLDERS: Final = 0o755
# Environment variables that the client reads when it connects. If they change, a new client is needed.
STATED: Final = ("HADOOP_USER_NAME", "HADOOP_CONF_DIR", "HADOOP_HOME", "KRB5CCNAME")
# The library keeps connections to datanodes open for this many seconds. A forked process must not use
# its parent's connections, so it waits until they are closed.
IDLE: Final = 3.2
# The process that sent the last request, and its time. A forked process inherits its parent's values.
_LAST: Final[list[float]] = [0, 0.0]

REFUSED: Final = RefusalTexts(
    "the parameter {} of an HDFS address is not supported",
    "Set HADOOP_CONF_DIR to the folder of core-site.xml and hdfs-site.xml, which configure the access",
)


class RefusedError(OSError):
    """Raised for a request that an HDFS namenode rejected, or that did not reach it.

    ``kind`` is the class name of the namenode's or the client's exception, and ``hint`` states what
    to try.
    """

    def __init__(self, problem: str, kind: str) -> None:
        self.problem, self.kind, self.hint = problem, kind, HINTS.get(kind, "")
        super().__init__(f"{problem}. {self.hint}" if self.hint else problem)

    def __reduce__(self) -> tuple[type[RefusedError], tuple[str, str]]:
        return type(self), (self.problem, self.kind)


def to_refused_error(error: BaseException) -> RefusedError:
    """Convert an exception of the HDFS client to a RefusedError with the first line of its text.

    The other lines are Java's stack trace.
    """
    kind, text = _parts(error)
    line = " ".join(text.partition("\n")[0].split())
    if "could only be written to 0 of" in line or "NotEnoughReplicas" in kind:
        kind = "NoDatanodes"
    return RefusedError(line or kind, kind)


def _parts(error: BaseException) -> tuple[str, str]:
    """Split an HDFS client's exception into the class name of the original exception, and its text.

    The original one was raised by the namenode (in Java) or in the client itself (in Rust).
    """
    text = str(error)
    printed = PRINTED.fullmatch(text)
    if printed is None:
        kind = UNREACHED if isinstance(error, OSError) else type(error).__name__
        return kind, text
    strings = [_unquote(one) for one in QUOTED.findall(printed["texts"])]
    if len(strings) > 1:
        return strings[0].rpartition(".")[2], strings[-1]
    return printed["kind"], strings[0] if strings else printed["texts"]


def _unquote(text: str) -> str:
    return BACKED.sub(lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), text)


def _create(client: Any, path: str) -> Any:
    from hdfs_native import WriteOptions  # noqa: PLC0415  an extra

    return client.create(path, WriteOptions(overwrite=True, create_parent=True))


def _written(client: Any, path: str, data: bytes) -> None:
    file = _create(client, path)
    file.write(data)
    file.close()


def _range(_client: Any, _path: str, file: Any, begin: int, end: int) -> bytes:
    end = min(end, file.file_length())  # the client panics beyond it
    return bytes(file.read_range(begin, end - begin)) if begin < end else b""


# Requests by name. Each gets the client, a path, and further arguments.
REQUESTS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "status": lambda client, path: client.get_file_info(path),
        "entries": lambda client, path, deep=False: list(client.list_status(path, deep)),
        "open": lambda client, path: client.inner.read(path),
        "range": _range,
        "create": _create,
        "write": _written,
        "append": lambda _client, _path, file, data: file.write(data),
        "close": lambda _client, _path, file: file.close(),
        "rename": lambda client, path, to, overwrite: client.rename(path, to, overwrite),
        "delete": lambda client, path, recursive: client.delete(path, recursive),
        "set_time": lambda client, path, time: client.set_times(path, time, KEEP),
        "folder": lambda client, path: client.mkdirs(path, FOLDERS, True),
    }
)


def ask(authority: str, request: str, path: str, *arguments: Any) -> Any:
    """Send a request such as "status" to a Hadoop cluster, and return its answer.

    ``authority`` is a namenode (``host:8020``), a name service, or "" for the cluster in
    ``fs.defaultFS``.

    Raises FileNotFoundError, FileExistsError, MissingDependencyError, and RefusedError for
    everything else.
    """
    try:
        client = _client(authority)
        _LAST[:] = os.getpid(), time.monotonic()
        return REQUESTS[request](client, path, *arguments)
    except (FileNotFoundError, FileExistsError) as error:
        # The first line names the path; the others are Java's stack trace.
        raise type(error)(str(error).partition("\n")[0]) from None
    except MissingDependencyError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        raise to_refused_error(error) from None
    # A panic of the Rust client is not an Exception.
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # pyo3's, which cannot be imported
            raise
        raise RefusedError(f"the client of Hadoop fails: {error}", "PanicException") from None


def _client(authority: str) -> Any:
    """Return this process's client of a Hadoop cluster.

    A client that was created before a fork cannot be used: its threads do not exist here.
    """
    stated = tuple(os.environ.get(name) for name in STATED)
    return _connect(authority, os.getpid(), stated)


@cache
def _connect(authority: str, _process: int, _stated: tuple[str | None, ...]) -> Any:
    check_hdfs_installed()
    from hdfs_native import Client  # noqa: PLC0415  an extra

    process, at = _LAST
    if process not in (0, os.getpid()):
        time.sleep(max(0, at + IDLE - time.monotonic()))
    host, colon, _ = authority.rpartition(":")
    if not authority:
        client = Client(None)
    elif host and colon:
        client = Client(f"hdfs://{authority}", dict(OF_A_NAMENODE))
    else:
        try:
            client = Client(f"hdfs://{authority}")
        except RuntimeError:  # not a name service, so it is a host with Hadoop's default port
            client = Client(f"hdfs://{authority}:{PORT}", dict(OF_A_NAMENODE))
    # Never deleted: in a forked process, deleting the inherited client would wait forever for threads
    # that do not exist there.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(client.inner))
    return client


def check_hdfs_installed() -> None:
    """Raise MissingDependencyError if hdfs-native is not installed."""
    try:
        import hdfs_native  # noqa: F401, PLC0415  an extra
    except ImportError:
        raise MissingDependencyError.of_extra("hdfs:// needs hdfs-native", "hdfs") from None


class HadoopFile(RawIOBase):
    """A file of HDFS that is open for reading."""

    def __init__(self, authority: str, path: str) -> None:
        self._asked = authority, path
        self._file = ask(authority, "open", path)
        self._size, self._at = int(self._file.file_length()), 0

    def readable(self) -> bool:
        """Return True: the HDFS file is open for reading."""
        return True

    def seekable(self) -> bool:
        """Return True: an HDFS file can be read at any offset."""
        return True

    def tell(self) -> int:
        """Return the offset of the next byte of the HDFS file."""
        return self._at

    def size(self) -> int:
        """Return the HDFS file's size."""
        return self._size

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the offset of the next byte of the HDFS file, and return it."""
        self._at = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence] + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes of the HDFS file; fewer than ``size`` only at the end."""
        authority, path = self._asked
        end = self._size if size is None or size < 0 else self._at + size
        data = bytes(ask(authority, "range", path, self._file, self._at, end))
        self._at += len(data)
        return data


class HadoopFiles(fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types of its own
    """The handler of a read-only pyarrow file system for one HDFS cluster."""

    def __init__(self, authority: str) -> None:
        self.authority = authority

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HadoopFiles) and other.authority == self.authority

    def __hash__(self) -> int:
        return hash(self.authority)

    def get_type_name(self) -> str:
        """Return the name of the HDFS file system type."""
        return "hadoop"

    def normalize_path(self, path: str) -> str:
        """Return an HDFS path unchanged."""
        return path

    def get_file_info(self, paths: Iterable[str]) -> list[fs.FileInfo]:
        """Return the type and size of each HDFS path."""
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> fs.FileInfo:
        try:
            return _describe(path, ask(self.authority, "status", f"/{path.strip('/')}"))
        except FileNotFoundError:
            return fs.FileInfo(path, fs.FileType.NotFound)

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """Return the entries of an HDFS folder."""
        folder = f"/{selector.base_dir.strip('/')}"
        try:
            if not ask(self.authority, "status", folder).isdir:
                raise NotADirectoryError(f"{folder} is not a folder")
            entries = ask(self.authority, "entries", folder, bool(selector.recursive))
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise
        return [_describe(entry.path, entry) for entry in entries]

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open an HDFS file for reading at any offset."""
        return pa.PythonFile(HadoopFile(self.authority, path), mode="r")

    open_input_stream = open_input_file

    def _refuse(self, *_: object) -> NoReturn:
        raise NotImplementedError("pyarrow does not write files of Hadoop here")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse


def _describe(path: str, status: Any) -> fs.FileInfo:
    if status.isdir:
        return fs.FileInfo(path, fs.FileType.Directory)
    changed = int(status.modification_time) * 1_000_000
    return fs.FileInfo(path, fs.FileType.File, size=int(status.length), mtime_ns=changed)


@dataclass(frozen=True, slots=True)
class HdfsPath:
    """A path in an HDFS cluster. ``key`` is the path without its leading slash.

    ``authority`` names the cluster, as for ``ask``.
    """

    authority: str
    key: str


def parse_hdfs_address(address: str) -> HdfsPath:
    """Parse an HDFS address. Raises OptionError."""
    url = urlsplit(address)
    parse_parameters(url.query, (), REFUSED)
    if "@" in url.netloc:
        problem = "an HDFS address cannot have a user"
        hint = "Set the user by HADOOP_USER_NAME, or by kinit if the cluster has Kerberos"
        raise OptionError(problem, hint=hint)
    if url.fragment or address.endswith("#"):
        raise OptionError("an HDFS address cannot contain #", hint="In a name, write %23")
    key = unquote(url.path).lstrip("/")
    if ":" in key:
        raise OptionError(f"{key} contains a colon", hint="Names in HDFS have no colon")
    return HdfsPath(url.netloc, key)


def hdfs_files(address: str) -> tuple[fs.FileSystem, str]:
    """Return pyarrow's file system of an HDFS cluster, for reading, and the path in it.

    Raises OptionError or MissingDependencyError.
    """
    place = parse_hdfs_address(address)
    check_hdfs_installed()
    return fs.PyFileSystem(HadoopFiles(place.authority)), f"/{place.key}"
