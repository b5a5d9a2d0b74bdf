"""Places in HDFS: addresses, and what of them is refused."""

from __future__ import annotations

import pytest

from trailgate.errors import OptionError
from trailgate.storage.files.addresses import locate
from trailgate.storage.files.hdfs_client import parse_hdfs_address


def test_addresses_name_a_cluster_and_a_path() -> None:
    for address, authority, key in (
        ("hdfs://h:8020/dirdat/ot", "h:8020", "dirdat/ot"),
        ("hdfs://cluster/a%20b/%C3%BC%23%25", "cluster", "a b/ü#%"),
        ("hdfs:///dirdat/ot", "", "dirdat/ot"),
        ("hdfs://h:8020", "h:8020", ""),
    ):
        place = parse_hdfs_address(address)
        assert (place.authority, place.key) == (authority, key)
        assert locate(address)[1] == f"/{key}"


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("hdfs://h:8020/x?replication=2", "the parameter replication .* Set HADOOP_CONF_DIR"),
        ("hdfs://joe@h:8020/x", "an HDFS address cannot have a user.*HADOOP_USER_NAME"),
        ("hdfs://h:8020/a#b", "cannot contain #.*In a name, write %23"),
        ("hdfs://h:8020/a%3Ab", "a:b contains a colon. Names in HDFS have no colon"),
    ],
)
def test_unsupported_parameters_are_refused(address: str, problem: str) -> None:
    for open_it in (parse_hdfs_address, locate):
        with pytest.raises(OptionError, match=problem):
            open_it(address)
