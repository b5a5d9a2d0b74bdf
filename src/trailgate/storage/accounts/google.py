"""Accounts of Google Cloud Storage: addresses as pyarrow.fs understands them, and the variable that names an emulator.

``gs://bucket/dirdat/ot``; ``gs://anonymous@bucket/dirdat/ot?endpoint_override=host:port&scheme=http`` for other servers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from trailgate.errors import OptionError
from trailgate.storage.accounts.parameters import Refusal, obeyed_parameters

OBEYED: Final = frozenset({"endpoint_override", "scheme"})
REFUSED: Final = Refusal(
    "writing does not obey the parameter {} of an address of Google", "It knows {}"
)
EMULATOR: Final = "STORAGE_EMULATOR_HOST"
SERVER: Final = "https://storage.googleapis.com"


@dataclass(frozen=True, slots=True)
class GooglePlace:
    """A place in a bucket; who is anonymous has no login."""

    bucket: str
    key: str
    server: str = SERVER
    anonymous: bool = False


def google_place(address: str) -> GooglePlace:
    """Return what an address and the environment state; raises OptionError."""
    url = urlsplit(address)
    given = obeyed_parameters(url.query, OBEYED, REFUSED)
    user, _, bucket = url.netloc.rpartition("@")
    if user not in ("", "anonymous"):
        problem = "the user in an address of Google is not anonymous"
        raise OptionError(problem, hint="Other logins are looked for as Google's libraries do")
    key = unquote(url.path).lstrip("/")
    server, anonymous = SERVER, bool(user)
    if given.get("endpoint_override"):
        server = f"{given.get('scheme', 'https')}://{given['endpoint_override']}"
    elif _emulator():
        server, anonymous = _emulator(), True
    return GooglePlace(unquote(bucket), key, server, anonymous)


def _emulator() -> str:
    """Return the address of the emulator that the environment names; empty where it names none."""
    stated = os.environ.get(EMULATOR, "").rstrip("/")
    return stated if "://" in stated or not stated else f"http://{stated}"


def google_files(address: str) -> tuple[fs.FileSystem, str]:
    """Return pyarrow's file system of an account, and the path in it; raises OptionError."""
    if not _emulator() or "?" in address:
        files, path = fs.FileSystem.from_uri(address)
        return files, str(path)
    place = google_place(address)
    scheme, _, host = place.server.partition("://")
    made = fs.GcsFileSystem(anonymous=True, scheme=scheme, endpoint_override=host)
    return made, f"{place.bucket}/{place.key}".rstrip("/")
