"""Addresses of S3 as pyarrow.fs understands them: ``s3://KEY:SECRET@bucket/dirdat/ot?region=...&endpoint_override=...``."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from trailgate.storage.accounts.parameters import Refusal, obeyed_parameters

# Of pyarrow's parameters those that mean something where objects are put; the others would be obeyed by reading alone.
OBEYED: Final = frozenset({"region", "scheme", "endpoint_override", "force_virtual_addressing"})
REFUSED: Final = Refusal(
    "writing does not obey the parameter {} of an address of S3", "It knows {}"
)
ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


@dataclass(frozen=True, slots=True)
class S3Settings:
    """How a bucket is reached. None: as the environment, the profile or the machine's role state."""

    bucket: str
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    region: str | None = None
    endpoint: str | None = None
    path_style: bool = False


def s3_settings(address: str) -> tuple[S3Settings, str]:
    """Return how the bucket of an address is reached, and the key; raises OptionError."""
    url = urlsplit(address)
    given = obeyed_parameters(url.query, OBEYED, REFUSED)
    user, _, host = url.netloc.rpartition("@")
    access, _, secret = user.partition(":")
    endpoint = given.get("endpoint_override")
    if endpoint and "://" not in endpoint:
        endpoint = f"{given.get('scheme', 'https')}://{endpoint}"
    own = bool(endpoint or any(os.environ.get(name) for name in ENDPOINTS))
    virtual = given.get("force_virtual_addressing", "").casefold() in ("1", "true")
    settings = S3Settings(
        unquote(host),
        unquote(access) or None,
        unquote(secret) or None,
        given.get("region"),
        endpoint,
        path_style=own and not virtual,
    )
    return settings, unquote(url.path).lstrip("/")
