"""What only HDFS has: claims of killed writers, times, folders, users, and what a namenode refuses."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from store_servers.bucket import Bucket
from store_servers.hdfs import HdfsServer
from stored_place import KilledError, killed_after, meeting, requests
from trailgate.errors import StorageError, WriteError
from trailgate.storage.files import hdfs_client as namenode
from trailgate.storage.files.addresses import locate
from trailgate.storage.files.file_search import list_names
from trailgate.storage.files.hdfs_client import ask
from trailgate.storage.files.text_files import read_file
from trailgate.storage.stores.hdfs import HdfsStore
from trailgate.storage.stores.object_store import ObjectRange
from trailgate.storage.stores.writable_stores import writable_store

pytestmark = pytest.mark.servers


def test_a_put_that_is_killed_anywhere_holds_up_nobody(hdfs_bucket: Bucket) -> None:
    store = hdfs_bucket.store
    seen = set()
    for step in count():
        first = store.put(f"x{step}", b"first", None)
        with killed_after(step) as sent, suppress(KilledError):
            store.put(f"x{step}", b"killed", first)
        found = store.read(f"x{step}")
        assert found.data in (b"first", b"killed")
        assert store.put(f"x{step}", b"next", found.tag) is not None
        assert hdfs_bucket.get(f"x{step}") == b"next"
        seen.add(found.data)
        if len(sent) <= step:
            break
    store.abandon("x", bool)

    assert seen == {b"first", b"killed"}
    assert hdfs_bucket.uploads() == []
    assert hdfs_bucket.keys() == sorted(f"x{number}" for number in range(step + 1))


def test_of_a_put_and_a_rival_at_any_of_its_requests_one_wins(hdfs_bucket: Bucket) -> None:
    store = hdfs_bucket.store
    winners = set()
    for step in count(1):
        first = store.put(f"x{step}", b"first", None)
        rival: list[Any] = []
        with meeting(step, lambda: rival.append(store.put(f"x{step}", b"rival", first))) as sent:  # noqa: B023
            own = store.put(f"x{step}", b"own", first)
        if len(sent) < step:
            break
        assert (own is None) != (rival[0] is None), step
        winner = b"own" if own is not None else b"rival"
        assert store.read(f"x{step}") == (winner, own or rival[0])
        winners.add(winner)

    assert winners == {b"own", b"rival"}
    assert hdfs_bucket.uploads() == []


def test_what_replaces_a_file_is_later_whatever_the_clock_is(hdfs_bucket: Bucket) -> None:
    store = hdfs_bucket.store
    store.put("x", b"1", None)
    future = (int(time.time()) + 10_000) * 1000
    store.store.call("set_time", f"{hdfs_bucket.name}/x", future)
    first = store.read("x").tag

    second = store.put("x", b"2", first)

    assert (first, second) == (f"{future}-1", f"{future + 1}-1")
    assert store.put("x", b"3", first) is None
    assert store.read("x") == (b"2", second)


def test_what_is_deleted_while_it_is_written_is_written_again(hdfs_bucket: Bucket) -> None:
    store = hdfs_bucket.store
    path = Path(os.devnull)

    def sweep() -> None:
        store.abandon("", bool)

    def replace(key: str) -> Any:
        return store.put(key, b"2", store.put(key, b"1", None))

    for name, act in (
        ("made", lambda key: store.put(key, b"1", None)),
        ("replaced", replace),
        ("uploaded", lambda key: store.upload(key, path) or "done"),
    ):
        with requests(bool) as sent:
            act(name)
        for step in range(1, len(sent) + 1):
            with meeting(step, sweep):
                assert act(f"{name}{step}") is not None


def test_keys_are_listed_in_their_order(hdfs_bucket: Bucket) -> None:
    names = ["a", "a-", "a/b", "a/b/c", "a.b", "a0", "ü", "z/ü/1", "z/a", "ß", "~"]
    kept = [name for name in names if name not in ("a", "a/b")]
    for name in kept:
        hdfs_bucket.put(name, b"")

    assert hdfs_bucket.keys() == sorted(kept)
    for prefix in ("", "a", "a/", "a/b", "z/ü", "ü", "no"):
        for after in ("", "a", "a.b", "a/b", "a/b/c", "z/a", "~"):
            found = [key for key, _ in hdfs_bucket.store.list_keys(prefix, after)]
            assert found == [k for k in sorted(kept) if k.startswith(prefix) and k > after]


def test_empty_folders_of_staged_files_are_deleted_and_no_others(hdfs_bucket: Bucket) -> None:
    keys = ["d/.ot.staging/1-a/x", "d/.ot.staging/1-a/y", "d/.ot.stream-q/000/x", "d/.mine/x"]
    for key in [*keys, "out/.publishing/c"]:
        hdfs_bucket.put(key, b"1")

    hdfs_bucket.store.delete([*keys, "out/.publishing/c"])

    store, path = locate(hdfs_bucket.url)
    left = store.get_file_info(fs.FileSelector(path, recursive=True))
    assert sorted(entry.path[len(path) :] for entry in left) == ["/d", "/d/.mine", "/out"]


def test_files_are_read_as_pyarrow_reads_files(hdfs_bucket: Bucket) -> None:
    data = os.urandom(300_000)
    hdfs_bucket.put("d/x", data)
    hdfs_bucket.put("d/e/y", b"")
    store, path = locate(f"{hdfs_bucket.url}/d")

    with store.open_input_file(f"{path}/x") as file:
        assert file.size() == len(data)
        file.seek(299_990)
        assert file.read(100) == data[-10:]
        assert file.read_at(50, 1000) == data[1000:1050]
    with store.open_input_stream(f"{path}/x") as stream:
        assert stream.read(10) + stream.readall() == data
    found, _ = list_names(store, path)
    assert sorted((e.base_name, e.type, e.size) for e in found) == [
        ("e", fs.FileType.Directory, None),
        ("x", fs.FileType.File, len(data)),
    ]
    assert list_names(store, f"{path}/none") == ([], 0)
    assert store.get_file_info(f"{path}/none").type == fs.FileType.NotFound
    with pytest.raises(OSError, match="File does not exist"):
        store.open_input_file(f"{path}/none")
    with pytest.raises(NotADirectoryError):
        store.get_file_info(fs.FileSelector(f"{path}/x"))
    with pytest.raises(FileNotFoundError):
        store.get_file_info(fs.FileSelector(f"{path}/none"))


def test_who_may_not_write_infers_it_in_one_line(
    hdfs_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    hdfs_bucket.put("x", b"1")
    monkeypatch.setenv("HADOOP_USER_NAME", "someone")

    acts: tuple[Callable[[], object], ...] = (
        lambda: hdfs_bucket.store.put("y", b"", None),
        lambda: hdfs_bucket.store.delete(["x"]),
        lambda: hdfs_bucket.store.begin("y").finish(),
    )
    for act in acts:
        with pytest.raises(WriteError) as caught:
            act()
        assert "the store refused the request: Permission denied: user=someone" in str(caught.value)
        assert f"{hdfs_bucket.url}/" in str(caught.value)
        assert str(caught.value).count("\n") == 0
        assert "HADOOP_USER_NAME" in str(caught.value)
    assert hdfs_bucket.get("x") == b"1"


def test_who_may_only_read_reads_past_a_claim(
    hdfs_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = hdfs_bucket.store.put("x", b"1", None)
    with killed_after(5) as sent, pytest.raises(KilledError):
        hdfs_bucket.store.put("x", b"2", first)
    assert "rename" in sent[:5]
    monkeypatch.setenv("HADOOP_USER_NAME", "someone")

    assert hdfs_bucket.get("x") == b"1"
    monkeypatch.delenv("HADOOP_USER_NAME")
    assert hdfs_bucket.get("x") == b"2"


def written(address: str) -> None:
    """Write a file."""
    store, key = writable_store(address, "a test")
    store.put(key, b"1", None)


def put_many(store: Any, count: int) -> None:
    for number in range(count):
        store.put(f"y{number}", b"", None)


@pytest.mark.slow
def test_a_full_a_closed_and_a_killed_cluster_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namenode, "OF_A_NAMENODE", {"dfs.client.failover.max.attempts": "1"})
    server = HdfsServer(tmp_path)
    try:
        bucket = Bucket(server)
        store = bucket.store
        first = store.put("x", b"1", None)
        server.administer("-setQuota", "5", f"/{bucket.name}")
        refused = "the store refused the request: The NameSpace quota .* Have the quota raised"
        with pytest.raises(WriteError, match=refused):
            put_many(store, 9)
        kept = bucket.keys()
        server.administer("-safemode", "enter")
        with pytest.raises(WriteError, match=r"Name node is in safe mode.* Run it again when hdfs"):
            store.put("x", b"2", first)
        assert store.read("x") == (b"1", first)
        assert bucket.keys() == kept
        with (
            meeting(3, server.kill),
            pytest.raises(WriteError, match=r"the store cannot be reached: .*/x\)"),
        ):
            store.read("x")
    finally:
        server.stop()


@pytest.mark.parametrize("reading", [True, False])
def test_a_cluster_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, reading: bool
) -> None:
    monkeypatch.setattr(namenode, "OF_A_NAMENODE", {"dfs.client.failover.max.attempts": "1"})
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    for authority, problem in (
        ("127.0.0.1:1", "Connection refused"),
        ("", "No fs.defaultFS setting found"),
    ):
        address = f"hdfs://{authority}/x"
        act = read_file if reading else written
        with pytest.raises(StorageError) as caught:
            act(address)
        assert problem in str(caught.value)
        assert f"{address})" in str(caught.value)
        assert "HADOOP_CONF_DIR" in str(caught.value)


def test_name_services_are_those_of_the_configuration(
    hdfs_server: HdfsServer, hdfs_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hdfs_bucket.put("x", b"1")
    properties = {
        "fs.defaultFS": "hdfs://cluster",
        "dfs.nameservices": "cluster",
        "dfs.ha.namenodes.cluster": "a,b",
        "dfs.namenode.rpc-address.cluster.a": "127.0.0.1:1",  # not there: the other one is asked
        "dfs.namenode.rpc-address.cluster.b": hdfs_server.host,
    }
    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in properties.items()
    )
    for file in ("core-site.xml", "hdfs-site.xml"):
        (tmp_path / file).write_text(f"<configuration>{rows}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))

    for authority in ("cluster", ""):
        address = f"hdfs://{authority}/{hdfs_bucket.name}/x"
        assert read_file(address) == b"1"
        store, key = writable_store(address, "a test")
        found = store.read(key)
        assert found is not None
        assert store.shown(key) == address


def test_each_process_has_a_client_of_its_own(hdfs_bucket: Bucket) -> None:
    hdfs_bucket.put("x", b"1")
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if hdfs_bucket.get("x") == b"1" else 1)
        finally:
            os._exit(2)

    assert os.waitpid(child, 0)[1] == 0


def test_a_file_that_is_replaced_while_it_is_read_is_read_whole(hdfs_bucket: Bucket) -> None:
    store = hdfs_bucket.store
    store.put("x", b"first", None)
    with requests(bool) as sent:
        store.read("x")
    for step in range(1, len(sent) + 1):
        data = b"%d" % step * (step % 3 + 1)

        def rival(data: bytes = data) -> None:
            inside = HdfsStore(store.store.authority)
            key = f"{hdfs_bucket.name}/x"
            inside.put(key, data, inside.tag(key))

        with meeting(step, rival):
            found = store.read("x")
        assert found.data == data or step == len(sent)
        assert (found.tag == store.read("x").tag) == (found.data == data)


def test_parts_beyond_the_end_are_not_there(hdfs_bucket: Bucket) -> None:
    hdfs_bucket.put("x", b"12345")

    assert hdfs_bucket.store.read_range(ObjectRange("x", 3, 9)) == b"45"
    assert hdfs_bucket.store.read_range(ObjectRange("x", 7, 9)) == b""


def test_a_colon_in_a_name_is_refused(hdfs_server: HdfsServer) -> None:
    with pytest.raises(OSError, match=r"Invalid path name .* Names in HDFS have no colon"):
        ask(hdfs_server.host, "write", "/a:b", b"")
