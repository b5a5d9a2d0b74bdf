"""Objects of every kind of store: whole, in parts, composed of others, and put under conditions."""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laws import examples
from store_servers.bucket import SENDERS, Bucket
from stored_place import short_parts
from trailgate.errors import StorageError, WriteError
from trailgate.storage.files.addresses import locate
from trailgate.storage.files.text_files import read_file
from trailgate.storage.stores import azure, s3
from trailgate.storage.stores.object_store import PART, ObjectRange, check_conditions
from trailgate.storage.stores.s3 import MIN_PART
from trailgate.storage.stores.writable_stores import STORES, writable_store

MIB = 1 << 20
CONDITIONS = {"IfNoneMatch", "IfMatch", "etag", "match_condition", "ifGenerationMatch"}


def some_bytes(count: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(count)


def changing(patch: pytest.MonkeyPatch, change: Callable[[str, dict[str, Any]], object]) -> None:
    """Have ``change`` see, and change, the arguments of each request before it is sent."""

    def changed(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, operation: str, key: str = "", *named: Any, **arguments: Any) -> Any:
            if operation == "rename":  # of HDFS
                arguments["overwrite"] = named[1]
                change(operation, arguments)
                return real(self, operation, key, named[0], arguments["overwrite"])
            change(operation, arguments)
            return real(self, operation, key, *named, **arguments)

        return call

    for sender in SENDERS:
        patch.setattr(sender, "call", changed(sender.call))


def test_of_two_writers_one_wins(bucket: Bucket) -> None:
    first = bucket.store.put("x", b"one", None)

    assert first is not None
    assert bucket.store.put("x", b"two", None) is None
    second = bucket.store.put("x", b"two", first)
    assert second is not None
    assert bucket.store.put("x", b"three", first) is None
    assert bucket.store.put("none", b"three", first) is None
    assert bucket.get("x") == b"two"


def test_of_many_writers_at_the_same_time_one_wins(bucket: Bucket) -> None:
    tag = bucket.store.put("x", b"first", None)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: bucket.store.put("y", b"%d" % n, None), range(8)))
        over = list(pool.map(lambda n: bucket.store.put("x", b"%d" % n, tag), range(8)))

    for tags, key in ((made, "y"), (over, "x")):
        won = [number for number, one in enumerate(tags) if one is not None]
        assert [b"%d" % number for number in won] == [bucket.get(key)]


def test_a_put_whose_answer_was_lost_is_known_again(bucket: Bucket) -> None:
    tag = bucket.store.put("x", b"one", None)

    assert bucket.store.put("x", b"one", None) == tag


def test_what_is_there_has_its_bytes_and_what_is_not_has_none(bucket: Bucket) -> None:
    data = some_bytes(1000)
    tag = bucket.store.put("a b/ü#%", data, None)

    assert bucket.store.read("a b/ü#%") == (data, tag)
    assert bucket.store.read_range(ObjectRange("a b/ü#%", 10, 20)) == data[10:20]
    assert bucket.store.read_range(ObjectRange("a b/ü#%", 10, 10)) == b""
    assert bucket.store.read("a b") is None
    with pytest.raises(WriteError, match="the object no longer exists"):
        bucket.store.read_range(ObjectRange("a b", 0, 1))
    assert read_file(f"{bucket.url}/a%20b/%C3%BC%23%25") == data


def test_a_store_that_ignores_conditions_is_refused(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignored: set[str] = set()

    def ignoring(_: str, arguments: dict[str, Any]) -> None:
        if "overwrite" in arguments and "no other" in ignored:
            arguments["overwrite"] = True
        for name in ignored & arguments.keys():
            if arguments[name] not in ("*", 0) or "no other" in ignored:
                del arguments[name]

    changing(monkeypatch, ignoring)
    check_conditions(bucket.store, "check")
    assert bucket.keys() == []
    # HDFS has the tags of files from us: what it could ignore is that a rename replaces none.
    for more in ({"no other"},) if bucket.server.kind == "hdfs" else (set(), {"no other"}):
        ignored |= CONDITIONS | more
        with pytest.raises(StorageError, match="ignores the conditions"):
            check_conditions(bucket.store, "check")
        assert bucket.keys() == []


@pytest.mark.parametrize("size", [0, 1, PART, PART + 1])
def test_files_are_uploaded_whole(bucket: Bucket, tmp_path: Path, size: int) -> None:
    data = some_bytes(size)
    (tmp_path / "x").write_bytes(data)
    bucket.put("x", b"before")

    bucket.store.upload("x", tmp_path / "x")

    assert bucket.get("x") == data


@pytest.fixture
def in_short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    short_parts(monkeypatch, 16)


PIECES = st.lists(
    st.one_of(st.binary(max_size=30), st.tuples(st.integers(0, 90), st.integers(0, 90))), max_size=5
)


@pytest.mark.usefixtures("in_short_parts")
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=PIECES)
def test_objects_are_composed_of_bytes_and_ranges(bucket: Bucket, pieces: list[Any]) -> None:
    data = some_bytes(90)
    bucket.put("source", data)
    ranges = [p if isinstance(p, bytes) else ObjectRange("source", min(p), max(p)) for p in pieces]

    bucket.store.compose("x", ranges)

    whole = [p if isinstance(p, bytes) else data[p.begin : p.end] for p in ranges]
    assert bucket.get("x") == b"".join(whole)
    assert bucket.uploads() == []


def test_the_store_itself_copies_what_is_long(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bucket.server.kind in ("gs", "hdfs"):
        pytest.skip("Google's store copies whole objects alone, HDFS nothing")
    data = some_bytes(20 * MIB)
    bucket.put("source", data)
    sent = [0, 0]

    def noting(_: str, arguments: dict[str, Any]) -> None:
        sent[0] += 1
        sent[1] += sum(len(arguments[name]) for name in ("Body", "data") if name in arguments)

    changing(monkeypatch, noting)
    bucket.store.compose("x", [bytes(MIN_PART), ObjectRange("source", MIN_PART, 20 * MIB)])

    assert sent[0] <= 4
    assert sent[1] == MIN_PART
    assert bucket.get("x") == bytes(MIN_PART) + data[MIN_PART:]


def test_a_failed_upload_leaves_neither_object_nor_parts(bucket: Bucket) -> None:
    bucket.put("source", some_bytes(PART))
    pieces = [ObjectRange("source", 0, PART), ObjectRange("gone", 0, PART)]

    with pytest.raises(WriteError, match=r"the object no longer exists \(\w+://.*/gone\)"):
        bucket.store.compose("x", pieces)

    assert bucket.keys() == ["source"]
    assert bucket.uploads() == []


def test_writers_of_the_same_bytes_do_not_hinder_each_other(bucket: Bucket) -> None:
    data = some_bytes(MIB)
    bucket.put("source", data)
    pieces = [b"head", ObjectRange("source", 4, MIB)]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: bucket.store.compose("x", pieces), range(8)))

    assert bucket.get("x") == b"head" + data[4:]


def test_an_upload_that_was_left_is_completed_elsewhere(bucket: Bucket) -> None:
    upload = bucket.store.begin("x", later=True)
    upload.file.write(some_bytes(PART + 5))
    pending = upload.suspend()
    assert bucket.keys() == []

    pickle.loads(pickle.dumps(bucket.store)).complete(pickle.loads(pickle.dumps(pending)))

    assert bucket.get("x") == some_bytes(PART + 5)
    bucket.store.complete(pending)  # once more changes nothing
    assert bucket.get("x") == some_bytes(PART + 5)
    assert bucket.keys() == ["x"]


@pytest.mark.parametrize("size", [0, 5, PART + 5])
def test_a_new_object_replaces_none(bucket: Bucket, size: int) -> None:
    bucket.put("x", b"mine")
    upload = bucket.store.begin("x")
    upload.file.write(bytes(size))

    with pytest.raises(StorageError, match="already exists"):
        upload.finish()
    upload.abort()

    assert bucket.get("x") == b"mine"
    other = bucket.store.begin("y")
    other.file.write(bytes(size))
    other.finish()
    assert bucket.get("y") == bytes(size)


def test_unfinished_uploads_are_abandoned_by_their_names(bucket: Bucket) -> None:
    keys = {"a/1", "a/2", "b/1"}
    for key in keys:
        bucket.store.begin(key, later=True).suspend()
    kept = set(bucket.uploads())
    # Azure's store discards blocks of nobody itself.
    assert kept == (set() if bucket.server.kind == "azure" else keys)

    bucket.store.abandon("a/", lambda key: key.endswith("1"))

    assert set(bucket.uploads()) == kept - {"a/1"}
    assert bucket.keys() == []


# What asks a store for a few keys in an answer, where it gives thousands.
FEW = {
    "list_objects_v2": {"MaxKeys": 3},
    "list_blobs": {"results_per_page": 3},
    "list": {"maxResults": 3},
}


def test_keys_of_many_answers_are_listed_and_deleted(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (s3, azure):
        monkeypatch.setattr(module, "DELETED", 4)
    for number in range(10):
        bucket.put(f"x/{number}", b"")
    bucket.put("y", b"")
    asked: list[str] = []

    def few(operation: str, arguments: dict[str, Any]) -> None:
        asked.append(operation)
        arguments |= FEW.get(operation, {})

    changing(monkeypatch, few)
    assert [key for key, _ in bucket.store.list_keys("x/")] == [
        f"x/{number}" for number in range(10)
    ]
    # The client of HDFS asks on by itself, for a thousand names each.
    assert len(asked) == (1 if bucket.server.kind == "hdfs" else 4)
    assert [key for key, _ in bucket.store.list_keys("x/", "x/6")] == ["x/7", "x/8", "x/9"]
    bucket.store.delete(key for key, _ in bucket.store.list_keys("x/"))
    assert bucket.keys() == ["y"]
    bucket.store.delete(["x/1", "y", "z"])
    assert bucket.keys() == []


def test_errors_of_the_store_are_named_without_the_login(bucket: Bucket) -> None:
    if bucket.server.kind == "hdfs":
        pytest.skip("addresses of HDFS hold no login, and its folders are made")
    address = bucket.whole_url("x").replace(bucket.name, "missingbucket")
    store, key = writable_store(address, "a test")

    with pytest.raises(
        WriteError, match=r"the store refused the request: .*missingbucket/x\)$"
    ) as caught:
        store.put(key, b"", None)

    assert bucket.server.secret in address
    assert bucket.server.secret not in f"{caught.value!s} {caught.value!r} {store!r}"


def test_addresses_with_a_login_are_written_to_and_read(bucket: Bucket) -> None:
    address = bucket.whole_url("a%20b")
    store, key = writable_store(address, "a test")

    assert store.put(key, b"1", None)

    assert bucket.keys() == ["a b"]
    assert read_file(address) == b"1"
    assert bucket.server.secret not in store.shown(key)
    assert locate(address)[1].lstrip("/") == f"{bucket.name}/a b"


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    places = {
        "s3": "s3://b/x",
        "abfs": "abfs://c@a.dfs.core.windows.net/x",
        "gs": "gs://b/x",
        "hdfs": "hdfs://h:1/x",
    }
    packages = {
        "s3": "botocore",
        "abfs": "azure-storage-blob",
        "gs": "google-auth",
        "hdfs": "hdfs-native",
    }
    for name in ("botocore", "azure.storage.blob", "google.auth", "hdfs_native"):
        monkeypatch.setitem(sys.modules, name, None)
    for scheme in places.keys() & STORES.keys():
        with pytest.raises(ImportError, match=rf"-m pip install '{packages[scheme]}>="):
            writable_store(places[scheme], "a test")
