"""A namenode and datanodes of Hadoop itself, from the jars of its own tests and of PySpark, in a process of their own."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from brokers.real_brokers import Process, copied_jars, free_ports, run
from trailgate.storage.stores.hdfs_claims import is_hidden_name, key_of
from trailgate.storage.stores.object_store import ObjectRange, PendingUpload

JARS: Final = (
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0",
    "org.junit.jupiter:junit-jupiter-api:5.10.2",
    "org.mockito:mockito-core:4.11.0",
)
MAIN: Final = "org.apache.hadoop.test.MiniDFSClusterManager"
# A client that closes a file before a datanode has reported it asks again after 0.5 s; the second of two has always reported.
DATANODES: Final = 2
LOGGING: Final = """\
rootLogger.level=error
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %c{1} %m%n
"""


def class_path(folder: Path) -> str:
    """Return the jars; Hadoop's own classes are those that PySpark has."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    of_spark = Path(found.origin).parent / "jars"
    wanted = ("hadoop-client-*.jar", "slf4j-api-*.jar", "log4j-*.jar", "jcl-over-slf4j-*.jar")
    jars = [jar for some in wanted for jar in sorted(of_spark.glob(some))]
    return ":".join(map(str, [folder, f"{copied_jars(*JARS)}/*", *jars]))


class HdfsServer:
    """The servers, and how they are reached."""

    kind = "hdfs"
    secret = "no login"  # which addresses do not hold
    asking = frozenset({"status", "entries", "open", "range"})

    def __init__(self, folder: Path) -> None:
        (folder / "log4j2.properties").write_text(LOGGING)
        self._class_path = class_path(folder)
        (port,) = free_ports(1)
        self.host = f"127.0.0.1:{port}"
        ready = folder / "ready.json"
        java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]
        java += [f"-Dtest.build.data={folder}/data", "-cp", self._class_path, MAIN]
        more = ["-format", "-datanodes", DATANODES, "-D", f"dfs.replication={DATANODES}"]
        self._process = Process(
            [*java, *more, "-nnport", port, "-writeDetails", ready],
            folder / "log",
            lambda: ready.exists() and "namenode_port" in json.loads(ready.read_text() or "{}"),
        )
        self._process.start()

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which clients find the server."""
        return {}

    def url(self, name: str) -> str:
        return f"hdfs://{self.host}/{name}"

    base = url

    def whole_url(self, name: str, key: str) -> str:
        return f"{self.url(name)}/{key}"

    def create(self, store: Any) -> None:
        """Do nothing: folders are made with the files in them."""

    def uploads(self, store: Any) -> list[str]:
        tree, above = store.store, store.above.rstrip("/")
        if tree.status(above) is None:
            return []
        paths = [entry.path[1:] for entry in tree.call("entries", above, True)]
        hidden = [path for path in paths if is_hidden_name(path.rpartition("/")[2])]
        return sorted(key_of(path).removeprefix(store.above) for path in hidden)

    def administer(self, *command: str) -> None:
        """Run a command of hdfs dfsadmin."""
        java = ["java", "-XX:TieredStopAtLevel=1", "-cp", self._class_path]
        run(
            [*java, "org.apache.hadoop.hdfs.tools.DFSAdmin", "-fs", f"hdfs://{self.host}", *command]
        )

    def kill(self) -> None:
        """End the servers as a power cut would."""
        self._process.kill()

    def stop(self) -> None:
        """End the servers."""
        self._process.stop()


class Below:
    """What is in one folder of a store, as if it were a store of its own."""

    def __init__(self, store: Any, above: str) -> None:
        self.store, self.above = store, above

    def shown(self, key: str) -> str:
        return str(self.store.shown(self.above + key))

    def read(self, key: str) -> Any:
        return self.store.read(self.above + key)

    def read_range(self, piece: ObjectRange) -> Any:
        return self.store.read_range(piece._replace(key=self.above + piece.key))

    def put(self, key: str, data: bytes, over: str | None) -> Any:
        return self.store.put(self.above + key, data, over)

    def upload(self, key: str, path: Path) -> None:
        self.store.upload(self.above + key, path)

    def compose(self, key: str, pieces: Iterable[bytes | ObjectRange]) -> None:
        inside = [
            piece if isinstance(piece, bytes) else piece._replace(key=self.above + piece.key)
            for piece in pieces
        ]
        self.store.compose(self.above + key, inside)

    def begin(self, key: str, *, later: bool = False) -> Any:
        return self.store.begin(self.above + key, later=later)

    def complete(self, pending: PendingUpload) -> None:
        self.store.complete(pending)

    def list_keys(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        for key, size in self.store.list_keys(self.above + prefix, after and self.above + after):
            yield key.removeprefix(self.above), size

    def delete(self, keys: Iterable[str]) -> None:
        self.store.delete([self.above + key for key in keys])

    def abandon(self, prefix: str, wanted: Callable[[str], bool]) -> None:
        above = self.above
        self.store.abandon(above + prefix, lambda key: wanted(key.removeprefix(above)))
