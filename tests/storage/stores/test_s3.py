"""What only S3 has: addresses with the parameters of its clients, and unfinished uploads in many answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from moto.core.responses import ActionResult
from moto.s3.responses import S3Response

from store_servers.bucket import Bucket
from store_servers.s3 import S3Server
from trailgate.errors import OptionError, WriteError
from trailgate.storage.stores.object_store import PART
from trailgate.storage.stores.s3 import S3Store
from trailgate.storage.stores.writable_stores import writable_store


def test_addresses_have_the_parameters_of_pyarrow(s3_server: S3Server, s3_bucket: Bucket) -> None:
    url = f"{s3_bucket.url}/a%20b?scheme=http&region=us-east-1&endpoint_override={s3_server.host}"
    store, key = writable_store(url, "a test")

    assert store.put(key, b"1", None)
    assert s3_bucket.keys() == ["a b"]
    with pytest.raises(OptionError, match="does not support the parameter role_arn"):
        writable_store(f"{s3_bucket.url}/x?role_arn=a", "a test")
    with pytest.raises(OptionError, match="a trail is not written to ftp:// addresses"):
        writable_store("ftp://b/x", "a trail")


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
def test_unfinished_uploads_of_many_answers_are_abandoned(s3_bucket: Bucket) -> None:
    for key in ("a/1", "a/1", "a/1", "a/2", "a/3", "a/3", "a/4", "b/1"):
        s3_bucket.store.begin(key).suspend()

    s3_bucket.store.abandon("a/", lambda key: key != "a/2")

    assert s3_bucket.uploads() == ["a/2", "b/1"]


def test_an_error_is_kept_where_its_upload_is_gone_already(
    s3_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_bytes(bytes(PART + 1))
    real = S3Store.complete_upload

    def losing(self: S3Store, key: str, *given: Any, **condition: str) -> None:
        real(self, key, *given, **condition)
        raise self.error("the answer is lost", key)

    monkeypatch.setattr(S3Store, "complete_upload", losing)

    with pytest.raises(WriteError, match="the answer is lost"):
        s3_bucket.store.upload("x", tmp_path / "x")
