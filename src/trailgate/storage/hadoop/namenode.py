"""Requests to a cluster of Hadoop by hdfs-native, which speaks the protocols of its namenodes and datanodes without Java."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from trailgate.errors import MissingDependencyError
from trailgate.storage.hadoop.refusals import RefusedError, refusal

PORT: Final = 8020
# Requests to one namenode that is not reached, which take 15 seconds together. Name services are asked as hdfs-site.xml states.
TRIED: Final = "4"
OF_A_NAMENODE: Final = MappingProxyType({"dfs.client.failover.max.attempts": TRIED})
KEEP: Final = 2**64 - 1  # -1 as Hadoop's Java reads it: the time of the last access stays
FOLDERS: Final = 0o755
# What the client reads when it connects: with other values it is another client.
STATED: Final = ("HADOOP_USER_NAME", "HADOOP_CONF_DIR", "HADOOP_HOME", "KRB5CCNAME")
# Seconds that the library keeps a connection to a datanode for the next request; a forked process must not use that of its parent.
IDLE: Final = 3.2
# The process that sent the last request, and when; a forked process has what its parent had.
_LAST: Final[list[float]] = [0, 0.0]


def _created(client: Any, path: str) -> Any:
    from hdfs_native import WriteOptions  # noqa: PLC0415  an extra

    return client.create(path, WriteOptions(overwrite=True, create_parent=True))


def _written(client: Any, path: str, data: bytes) -> None:
    file = _created(client, path)
    file.write(data)
    file.close()


def _range(_client: Any, _path: str, file: Any, begin: int, end: int) -> bytes:
    end = min(end, file.file_length())  # the client panics beyond it
    return bytes(file.read_range(begin, end - begin)) if begin < end else b""


# Requests by their names; each is given the client, a path, and arguments of its own.
REQUESTS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "status": lambda client, path: client.get_file_info(path),
        "entries": lambda client, path, deep=False: list(client.list_status(path, deep)),
        "open": lambda client, path: client.inner.read(path),
        "range": _range,
        "create": _created,
        "write": _written,
        "append": lambda _client, _path, file, data: file.write(data),
        "close": lambda _client, _path, file: file.close(),
        "rename": lambda client, path, to, overwrite: client.rename(path, to, overwrite),
        "delete": lambda client, path, recursive: client.delete(path, recursive),
        "set_time": lambda client, path, time: client.set_times(path, time, KEEP),
        "folder": lambda client, path: client.mkdirs(path, FOLDERS, True),
    }
)


def ask(authority: str, request: str, path: str, *given: Any) -> Any:
    """Return the answer of a cluster: of a namenode, a name service, or of ``fs.defaultFS`` where there is no authority.

    Raises FileNotFoundError, FileExistsError, and RefusedError for all else, and MissingDependencyError.
    """
    try:
        client = _client(authority)
        _LAST[:] = os.getpid(), time.monotonic()
        return REQUESTS[request](client, path, *given)
    except (FileNotFoundError, FileExistsError) as error:
        raise type(error)(str(error).partition("\n")[0]) from None
    except MissingDependencyError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        raise refusal(error) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # pyo3's, which cannot be imported
            raise
        raise RefusedError(f"the client of Hadoop fails: {error}", "PanicException") from None


def _client(authority: str) -> Any:
    """Return the client of this process: threads of another one would not answer."""
    stated = tuple(os.environ.get(name) for name in STATED)
    return _connected(authority, os.getpid(), stated)


@cache
def _connected(authority: str, _process: int, _stated: tuple[str | None, ...]) -> Any:
    check_installed()
    from hdfs_native import Client  # noqa: PLC0415  an extra

    process, at = _LAST
    if process not in (0, os.getpid()):
        time.sleep(max(0, at + IDLE - time.monotonic()))
    host, colon, _ = authority.rpartition(":")
    if not authority:
        made = Client(None)
    elif host and colon:
        made = Client(f"hdfs://{authority}", dict(OF_A_NAMENODE))
    else:
        try:
            made = Client(f"hdfs://{authority}")
        except RuntimeError:  # not a name service: a host, with the port that Hadoop takes then
            made = Client(f"hdfs://{authority}:{PORT}", dict(OF_A_NAMENODE))
    # Never deleted: a process that inherited it by a fork would wait for ever for threads that it does not have.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made.inner))
    return made


def check_installed() -> None:
    """Raise MissingDependencyError where hdfs-native is not installed."""
    try:
        import hdfs_native  # noqa: F401, PLC0415  an extra
    except ImportError:
        raise MissingDependencyError.of_extra("hdfs:// needs hdfs-native", "hdfs") from None
