"""Objects of S3: whole, in parts, composed of others, and put under conditions."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moto.core.responses import ActionResult
from moto.s3.responses import S3Response

from s3_server import ACCESS, SECRET, Bucket
from trailgate.errors import OptionError, StorageError, WriteError
from trailgate.storage.stores import s3, s3_upload
from trailgate.storage.stores.conditions import check_conditions
from trailgate.storage.stores.kinds import writable_store
from trailgate.storage.stores.object_store import Range
from trailgate.storage.stores.s3_client import S3Bucket
from trailgate.storage.stores.s3_upload import MIN_PART, PART

MIB = 1 << 20


def some_bytes(count: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(count)


def test_of_two_writers_one_wins(bucket: Bucket) -> None:
    first = bucket.store.put("x", b"one", None)

    assert first is not None
    assert bucket.store.put("x", b"two", None) is None
    second = bucket.store.put("x", b"two", first)
    assert second is not None
    assert bucket.store.put("x", b"three", first) is None
    assert bucket.store.put("none", b"three", first) is None
    assert bucket.get("x") == b"two"


def test_a_put_whose_answer_was_lost_is_known_again(bucket: Bucket) -> None:
    tag = bucket.store.put("x", b"one", None)

    assert bucket.store.put("x", b"one", None) == tag


def test_a_store_that_ignores_conditions_is_refused(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = S3Bucket.call

    def ignoring(self: S3Bucket, operation: str, key: str = "", **arguments: Any) -> Any:
        arguments.pop("IfNoneMatch", None)
        return real(self, operation, key, **arguments)

    check_conditions(bucket.store, "check")
    assert bucket.keys() == []
    monkeypatch.setattr(S3Bucket, "call", ignoring)
    with pytest.raises(StorageError, match="does not obey the conditions"):
        check_conditions(bucket.store, "check")
    assert bucket.keys() == []


@pytest.mark.parametrize("size", [0, 1, PART, PART + 1])
def test_files_are_uploaded_whole(bucket: Bucket, tmp_path: Path, size: int) -> None:
    data = some_bytes(size)
    (tmp_path / "x").write_bytes(data)

    bucket.store.upload("x", tmp_path / "x")

    assert bucket.get("x") == data
    assert bucket.uploads() == []


@pytest.fixture
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have parts of some bytes, so that each has few objects to make."""
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 10)
    for module, name, size in (
        (s3, "MIN_PART", 10),
        (s3, "COPIED", 25),
        (s3_upload, "PART", 16),
        (s3_upload, "LONGER", 3),
    ):
        monkeypatch.setattr(module, name, size)


PIECES = st.lists(
    st.one_of(st.binary(max_size=30), st.tuples(st.integers(0, 90), st.integers(0, 90))), max_size=5
)


@pytest.mark.usefixtures("short_parts")
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=PIECES)
def test_objects_are_composed_of_bytes_and_ranges(bucket: Bucket, pieces: list[Any]) -> None:
    data = some_bytes(90)
    bucket.put("source", data)
    ranges = [p if isinstance(p, bytes) else Range("source", min(p), max(p)) for p in pieces]

    bucket.store.compose("x", ranges)

    whole = [p if isinstance(p, bytes) else data[p.begin : p.end] for p in ranges]
    assert bucket.get("x") == b"".join(whole)
    assert bucket.uploads() == []


def test_the_store_itself_copies_what_is_long(bucket: Bucket) -> None:
    bucket.put("source", some_bytes(20 * MIB))
    sent = []
    real = S3Bucket.call

    def noting(self: S3Bucket, operation: str, key: str = "", **arguments: Any) -> Any:
        sent.append((operation, len(arguments.get("Body", b""))))
        return real(self, operation, key, **arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(S3Bucket, "call", noting)
        bucket.store.compose("x", [bytes(MIN_PART), Range("source", MIN_PART, 20 * MIB)])

    assert [name for name, _ in sent] == [
        "create_multipart_upload",
        "upload_part",
        "upload_part_copy",
        "complete_multipart_upload",
    ]
    assert sum(size for _, size in sent) == MIN_PART


def test_what_fails_leaves_neither_object_nor_parts(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("source", some_bytes(PART))
    pieces = [Range("source", 0, PART), Range("gone", 0, PART)]

    with pytest.raises(WriteError, match=r"the object is gone \(s3://bucket\d+/gone\)"):
        bucket.store.compose("x", pieces)

    assert bucket.keys() == ["source"]
    assert bucket.uploads() == []


def test_an_error_is_kept_where_its_upload_is_gone_already(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_bytes(some_bytes(PART + 1))
    real = S3Bucket.complete

    def losing(self: S3Bucket, key: str, *given: Any, **condition: str) -> None:
        real(self, key, *given, **condition)
        raise self.error("the answer is lost", key)

    monkeypatch.setattr(S3Bucket, "complete", losing)

    with pytest.raises(WriteError, match="the answer is lost"):
        bucket.store.upload("x", tmp_path / "x")


def test_an_upload_that_was_left_is_completed_elsewhere(bucket: Bucket) -> None:
    upload = bucket.store.begin("x")
    upload.file.write(some_bytes(PART + 5))
    pending = upload.leave()
    assert bucket.keys() == []

    pickle.loads(pickle.dumps(bucket.store)).complete(pickle.loads(pickle.dumps(pending)))

    assert bucket.get("x") == some_bytes(PART + 5)
    bucket.store.complete(pending)  # once more changes nothing


def test_a_new_object_replaces_none(bucket: Bucket) -> None:
    bucket.put("x", b"mine")
    upload = bucket.store.begin("x")
    upload.file.write(b"other")

    with pytest.raises(StorageError, match="there already"):
        upload.finish()

    assert bucket.get("x") == b"mine"


def test_unfinished_uploads_are_abandoned_by_their_names(bucket: Bucket) -> None:
    for key in ("a/1", "a/2", "b/1"):
        bucket.store.begin(key).leave()

    bucket.store.abandon("a/", lambda key: key.endswith("1"))

    assert sorted(bucket.uploads()) == ["a/2", "b/1"]


@pytest.fixture
def paged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have answers of two unfinished uploads each, as S3 has 1,000; moto's server knows no markers."""

    def answered(self: S3Response) -> Any:
        asked = (self._get_param("key-marker") or "", self._get_param("upload-id-marker") or "")
        known = self.backend.list_multipart_uploads(self.bucket_name).values()
        prefix = self._get_param("prefix") or ""
        left = sorted((one.key_name, one.id) for one in known if one.key_name.startswith(prefix))
        left = [one for one in left if one > asked]
        result: dict[str, Any] = {
            "Uploads": [{"Key": key, "UploadId": own} for key, own in left[:2]],
            "IsTruncated": len(left) > 2,
        }
        if len(left) > 2:
            result["NextKeyMarker"], result["NextUploadIdMarker"] = left[1]
        self.data["Action"] = "ListMultipartUploads"
        return self.serialized(ActionResult(result))

    monkeypatch.setattr(S3Response, "list_multipart_uploads", answered)


@pytest.mark.usefixtures("paged")
def test_unfinished_uploads_of_many_answers_are_abandoned(bucket: Bucket) -> None:
    for key in ("a/1", "a/1", "a/1", "a/2", "a/3", "a/3", "a/4", "b/1"):
        bucket.store.begin(key).leave()

    bucket.store.abandon("a/", lambda key: key != "a/2")

    assert bucket.uploads() == ["a/2", "b/1"]


@pytest.mark.slow
def test_many_keys_are_listed_and_deleted(bucket: Bucket) -> None:
    for number in range(1005):
        bucket.put(f"x/{number:04}", b"")
    bucket.put("y", b"")

    assert [key for key, _ in bucket.store.listed("x/", "x/1001")] == ["x/1002", "x/1003", "x/1004"]
    bucket.store.delete(key for key, _ in bucket.store.listed("x/"))
    assert bucket.keys() == ["y"]


def test_errors_of_the_store_are_named_without_the_login(bucket: Bucket) -> None:
    secret = SECRET.replace("/", "%2F").replace("+", "%2B")
    host = bucket.server.host
    url = f"s3://{ACCESS}:{secret}@missing-bucket/x?scheme=http&endpoint_override={host}"
    store, key = writable_store(url, "a test")

    with pytest.raises(WriteError) as caught:
        store.put(key, b"", None)

    assert "(NoSuchBucket)" in str(caught.value)
    assert "s3://missing-bucket/x" in str(caught.value)
    assert "SECRET" not in f"{caught.value!s} {caught.value!r} {store!r}"


def test_addresses_have_the_parameters_of_pyarrow(bucket: Bucket) -> None:
    url = f"{bucket.url}/a%20b?scheme=http&region=us-east-1&endpoint_override={bucket.server.host}"
    store, key = writable_store(url, "a test")

    assert store.put(key, b"1", None)
    assert bucket.keys() == ["a b"]
    with pytest.raises(OptionError, match="does not obey the parameter role_arn"):
        writable_store(f"{bucket.url}/x?role_arn=a", "a test")
    with pytest.raises(OptionError, match="a trail is not written to gs:// addresses"):
        writable_store("gs://b/x", "a trail")
