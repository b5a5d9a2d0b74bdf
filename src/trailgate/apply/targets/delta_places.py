"""Find Delta tables in a folder or an object store, by addresses as for trails (docs/stores.md).

delta-rs needs an address without a login, and the login as separate options. The login comes from
the address or from environment variables, the same ones as for trails. Options are looked up each
time a table is opened, because temporary keys of AWS expire after some hours.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

from trailgate.errors import OptionError

Options = dict[str, str]


def _no_options() -> None:
    return None


@dataclass(frozen=True, slots=True)
class DeltaPlace:
    """The address of a Delta table or of a folder of Delta tables.

    ``address`` has no login. ``find_options`` returns delta-rs's options, such as the login.
    """

    address: str
    find_options: Callable[[], Options | None] = field(default=_no_options, repr=False)

    def inside(self, *names: str) -> DeltaPlace:
        """Return the place of a Delta table below this folder."""
        return DeltaPlace("/".join((self.address, *names)), self.find_options)

    def open_table(self) -> DeltaTable:
        """Open the Delta table at this address. Raises delta-rs's own errors, such as TableNotFoundError."""
        return DeltaTable(self.address, storage_options=self.find_options())

    def open_folder(self) -> PyFileSystem:
        """Open the folder at this address as an Arrow file system, with delta-rs's storage handler."""
        return PyFileSystem(DeltaStorageHandler(self.address, self.find_options()))


def find_delta_place(address: str) -> DeltaPlace:
    """Find the place of a Delta table or folder by its address or path. Raises OptionError if delta-rs cannot reach it."""
    scheme, mark, _ = address.partition("://")
    find = _STORES.get(scheme) if mark else None
    return DeltaPlace(address.rstrip("/")) if find is None else find(address)


def _s3_place(address: str) -> DeltaPlace:
    from trailgate.storage.files.cloud_addresses import ENDPOINTS, parse_s3_address  # noqa: PLC0415  only for stores

    settings, key = parse_s3_address(address)
    # Botocore reads files to find a login, and renews temporary keys itself.
    find_login = cache(_aws_login)

    def options() -> Options:
        endpoint = settings.endpoint or next(filter(None, map(os.environ.get, ENDPOINTS)), "")
        found = {
            "aws_access_key_id": settings.access_key or "",
            "aws_secret_access_key": settings.secret_key or "",
            "aws_region": settings.region or "",
            "aws_endpoint_url": endpoint,
            "aws_virtual_hosted_style_request": "" if settings.path_style else "true",
            # delta-rs refuses an endpoint without TLS unless this is set.
            "aws_allow_http": "true" if endpoint.startswith("http://") else "",
        }
        if settings.access_key is None:
            found |= _login_options(*find_login())
        return {name: text for name, text in found.items() if text}

    return DeltaPlace(f"s3://{settings.bucket}/{key}".rstrip("/"), options)


def _aws_login() -> tuple[Any, str | None]:
    """Return the credentials that the AWS command line would use, and the region.

    Each is None if it is not found. This is needed because delta-rs does not read AWS profiles.
    Without botocore (the extra ``s3``) both are None, and delta-rs uses only environment variables.
    """
    if find_spec("botocore") is None:
        return None, None
    from botocore.session import get_session  # noqa: PLC0415  an extra

    session = get_session()
    return session.get_credentials(), session.get_config_variable("region")


def _login_options(credentials: Any, region: str | None) -> Options:
    """Return delta-rs's options for AWS credentials of botocore (or None), with keys that are valid now."""
    found = {"aws_region": region} if region else {}
    if credentials is not None:
        keys = credentials.get_frozen_credentials()
        found |= {"aws_access_key_id": keys.access_key, "aws_secret_access_key": keys.secret_key}
        found |= {"aws_session_token": keys.token} if keys.token else {}
    return found


def _azure_place(address: str) -> DeltaPlace:
    from trailgate.storage.files.cloud_addresses import BLOB, CLIENT, parse_azure_address  # noqa: PLC0415  only for stores

    path = parse_azure_address(address)
    account = path.account
    found = {
        "azure_storage_account_key": "" if account.sas else account.key or "",
        "azure_storage_sas_key": account.sas or "",
        "azure_storage_endpoint": "" if account.blob == BLOB else account.url,
        "azure_allow_http": "true" if account.scheme == "http" else "",
        **{
            f"azure_storage_{name}": text
            for name, text in zip(CLIENT, account.client, strict=False)
        },
    }
    options = {name: text for name, text in found.items() if text}
    # delta-rs recognizes the account and the container in this form; another host is an option.
    address = f"abfss://{path.container}@{account.name}.dfs.core.windows.net/{path.key}"
    return DeltaPlace(address.rstrip("/"), lambda: options)


def _google_place(address: str) -> DeltaPlace:
    from trailgate.storage.files.cloud_addresses import parse_google_address  # noqa: PLC0415  only for stores

    path = parse_google_address(address)
    if path.anonymous or "?" in address:
        problem = "a Delta table in Google Cloud Storage cannot be written anonymously, or with options in its address"
        hint = "Use gs://bucket/folder, and log in as docs/stores.md describes"
        raise OptionError(problem, hint=hint)
    return DeltaPlace(f"gs://{path.bucket}/{path.key}".rstrip("/"))


# By the scheme of an address.
_STORES: Final = {
    "s3": _s3_place,
    "s3a": _s3_place,
    "abfs": _azure_place,
    "abfss": _azure_place,
    "gs": _google_place,
}
