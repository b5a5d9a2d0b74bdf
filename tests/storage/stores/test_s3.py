"""What only S3 has: addresses with the parameters of its clients."""

from __future__ import annotations

import pytest

from store_servers.bucket import Bucket
from store_servers.s3 import S3Server
from trailgate.errors import OptionError
from trailgate.storage.stores.kinds import writable_store


def test_addresses_have_the_parameters_of_pyarrow(s3_server: S3Server, s3_bucket: Bucket) -> None:
    url = f"{s3_bucket.url}/a%20b?scheme=http&region=us-east-1&endpoint_override={s3_server.host}"
    store, key = writable_store(url, "a test")

    assert store.put(key, b"1", None)
    assert s3_bucket.keys() == ["a b"]
    with pytest.raises(OptionError, match="does not obey the parameter role_arn"):
        writable_store(f"{s3_bucket.url}/x?role_arn=a", "a test")
    with pytest.raises(OptionError, match="a trail is not written to hdfs:// addresses"):
        writable_store("hdfs://b/x", "a trail")
