"""Places in HDFS: addresses with a namenode, with a name service of ``HADOOP_CONF_DIR``, or with neither.

``hdfs://host:8020/dirdat/ot``, ``hdfs://cluster/dirdat/ot``, and ``hdfs:///dirdat/ot`` for the cluster that ``fs.defaultFS`` names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from trailgate.errors import OptionError
from trailgate.storage.accounts.parameters import Refusal, obeyed_parameters
from trailgate.storage.hadoop.files import HadoopFiles
from trailgate.storage.hadoop.namenode import check_installed

REFUSED: Final = Refusal(
    "the parameter {} of an address of HDFS is not obeyed",
    "HADOOP_CONF_DIR names the folder of core-site.xml and hdfs-site.xml, which state how a cluster is reached",
)


@dataclass(frozen=True, slots=True)
class HdfsPlace:
    """A place in a cluster; ``key`` is its path without the first slash."""

    authority: str
    key: str


def hdfs_place(address: str) -> HdfsPlace:
    """Return what an address states; raises OptionError."""
    url = urlsplit(address)
    obeyed_parameters(url.query, (), REFUSED)
    if "@" in url.netloc:
        problem = "the user in an address of HDFS is not obeyed"
        hint = "Name the user by HADOOP_USER_NAME; where the cluster has Kerberos, kinit does"
        raise OptionError(problem, hint=hint)
    if url.fragment or address.endswith("#"):
        raise OptionError("the sign # in an address of HDFS", hint="In a name it is written %23")
    key = unquote(url.path).lstrip("/")
    if ":" in key:
        raise OptionError(f"the colon in {key}", hint="Names in HDFS have none")
    return HdfsPlace(url.netloc, key)


def hdfs_files(address: str) -> tuple[fs.FileSystem, str]:
    """Return the files of a cluster to read from, and the path in them; raises OptionError and MissingDependencyError."""
    place = hdfs_place(address)
    check_installed()
    return fs.PyFileSystem(HadoopFiles(place.authority)), f"/{place.key}"
