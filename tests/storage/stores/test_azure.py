"""What only Azure has: tokens that are logins, and folders that are objects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from store_servers.azure import ACCOUNT, KEY, AzureServer
from store_servers.bucket import Bucket
from trailgate.errors import WriteError
from trailgate.storage.stores.object_store import ObjectRange
from trailgate.storage.stores.writable_stores import writable_store


def test_a_shared_access_signature_is_a_login(
    azure_server: AzureServer, azure_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    from azure.storage.blob import generate_container_sas  # noqa: PLC0415  an extra

    until = datetime.now(UTC) + timedelta(hours=1)
    # Of a container: for tokens of accounts the emulator does not know the operation that copies blocks.
    own = azure_bucket.name
    token = generate_container_sas(ACCOUNT, own, KEY, permission="rwdlc", expiry=until)
    end = f"BlobEndpoint=http://{azure_server.host}/{ACCOUNT};SharedAccessSignature={token}"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", end)
    store, key = writable_store(f"abfs://{azure_bucket.name}/x", "a test")
    azure_bucket.put("source", b"0123456789")

    store.compose(key, [b"head", ObjectRange("source", 2, 9)])

    assert azure_bucket.get("x") == b"head2345678"
    with pytest.raises(WriteError) as caught:
        writable_store("abfs://missing1/x", "a test")[0].put("x", b"", None)
    assert "sig=" not in str(caught.value)


def test_folders_that_are_objects_are_not_listed(azure_bucket: Bucket) -> None:
    azure_bucket.put("a/x", b"1")
    marked = {"data": b"", "metadata": {"hdi_isfolder": "true"}}
    azure_bucket.store.call("upload_blob", "a", **marked)

    assert azure_bucket.keys() == ["a/x"]
