"""Accounts of Azure's Blob Storage: addresses as pyarrow.fs understands them, and the variables of Azure's command line.

``abfs://container@account.dfs.core.windows.net/dirdat/ot``, ``abfs://account.blob.core.windows.net/container/dirdat/ot``,
``abfs://account@host:10000/container/dirdat/ot`` and ``abfs://account@container/dirdat/ot``, with a key after the user's name and a colon.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from trailgate.errors import OptionError
from trailgate.storage.accounts.parameters import Refusal, obeyed_parameters

BLOB, DFS = ".blob.core.windows.net", ".dfs.core.windows.net"
# An account's own host: of the public cloud, of a national one, or of an emulator.
HOST: Final = re.compile(r"(?P<account>[a-z0-9-]+)\.(?P<service>blob|dfs)(?P<suffix>\.[^/]+)")
CLIENT: Final = ("tenant_id", "client_id", "client_secret")
OBEYED: Final = frozenset(
    {"blob_storage_authority", "dfs_storage_authority", "enable_tls", *CLIENT}
)
REFUSED: Final = Refusal("the parameter {} of an address of Azure is not obeyed", "These are: {}")
CONNECTION: Final = "AZURE_STORAGE_CONNECTION_STRING"


@dataclass(frozen=True, slots=True)
class AzureAccount:
    """How an account is reached; without a key, a token or a client the login is looked for as Azure's own libraries do.

    ``blob`` and ``dfs`` are what follows the account's name in a host, or whole hosts that have the account in their paths.
    """

    name: str = ""
    key: str | None = field(default=None, repr=False)
    sas: str | None = field(default=None, repr=False)
    client: tuple[str, ...] = field(default=(), repr=False)
    blob: str = BLOB
    dfs: str = DFS
    scheme: str = "https"

    @property
    def url(self) -> str:
        """Return the address of the account's blobs."""
        own = f"{self.name}{self.blob}" if self.blob[0] == "." else f"{self.blob}/{self.name}"
        return f"{self.scheme}://{own}"

    @property
    def has_login(self) -> bool:
        """Return whether a login is stated."""
        return bool(self.key or self.sas or self.client)


@dataclass(frozen=True, slots=True)
class AzurePlace:
    """A place in a container; ``shown`` is the address of the container as it was asked for, without a login."""

    account: AzureAccount
    container: str
    key: str
    shown: str


def azure_place(address: str) -> AzurePlace:
    """Return what an address and the environment state; raises OptionError."""
    url = urlsplit(address)
    given = obeyed_parameters(url.query, OBEYED, REFUSED)
    login, _, host = url.netloc.rpartition("@")
    user, _, password = (unquote(part) for part in login.partition(":"))
    path = unquote(url.path).lstrip("/")
    own = HOST.fullmatch(host)
    account = AzureAccount(key=password or None)
    inside = True  # whether the container is in the path
    if own:
        tail = own["suffix"]
        account = replace(account, name=own["account"], blob=f".blob{tail}", dfs=f".dfs{tail}")
        if own["service"] == "dfs":
            path, inside = f"{user}/{path}", False
    elif "." in host or ":" in host:
        account = replace(account, name=user, blob=host, dfs=host)
    else:
        account, inside = replace(account, name=user), False
        path = f"{host}/{path}"
    account = _completed(_with_parameters(account, given))
    for authority in (account.blob, account.dfs):
        _check_port(authority)
    container, _, key = path.partition("/")
    if not account.name or not container:
        missing = "container" if account.name else "account"
        hint = "As abfs://container@account.dfs.core.windows.net/dirdat/ot"
        raise OptionError(f"an address of Azure does not name its {missing}", hint=hint)
    head = f"{url.scheme}://{user}{'@' if user else ''}{host}"
    return AzurePlace(account, container, key, f"{head}/{container}" if inside else head)


def _check_port(authority: str) -> None:
    """Raise OptionError where what follows a colon is not a port: pyarrow would end the process."""
    try:
        _ = urlsplit(f"//{authority}").port
    except ValueError as error:
        raise OptionError(f"{authority} is not a host of Azure: {error}") from None


def _with_parameters(account: AzureAccount, given: Mapping[str, str]) -> AzureAccount:
    client = tuple(given[name] for name in CLIENT if given.get(name))
    if client and (len(client) < len(CLIENT) or account.key):
        problem = "a login at Azure is a key, or tenant_id, client_id and client_secret"
        raise OptionError(problem, hint="Name all three, and no key")
    return replace(
        account,
        client=client,
        blob=given.get("blob_storage_authority") or account.blob,
        dfs=given.get("dfs_storage_authority") or account.dfs,
        scheme="http" if given.get("enable_tls", "").casefold() in ("0", "false") else "https",
    )


def _completed(account: AzureAccount) -> AzureAccount:
    """Return the account with what the environment states of it: nothing where the variables are another account's."""
    if account.has_login:
        return account
    connection = os.environ.get(CONNECTION, "")
    stated = _connected(connection) if connection else _stated()
    if not stated.name or account.name not in ("", stated.name):
        return account
    if (account.blob, account.dfs) == (BLOB, DFS) and account.scheme == "https":
        return stated
    return replace(account, name=stated.name, key=stated.key, sas=stated.sas)


def _stated() -> AzureAccount:
    return AzureAccount(
        os.environ.get("AZURE_STORAGE_ACCOUNT", ""),
        os.environ.get("AZURE_STORAGE_KEY") or None,
        _token(os.environ.get("AZURE_STORAGE_SAS_TOKEN", "")),
    )


def _token(text: str) -> str | None:
    return text.removeprefix("?") or None


def _connected(text: str) -> AzureAccount:
    """Return what a connection string states."""
    pairs = (pair.partition("=") for pair in text.split(";"))
    parts = {name.strip().casefold(): value for name, _, value in pairs}
    name, tail = parts.get("accountname", ""), parts.get("endpointsuffix", "core.windows.net")
    scheme = parts.get("defaultendpointsprotocol", "https")
    blob, dfs = f".blob.{tail}", f".dfs.{tail}"
    if "blobendpoint" in parts:
        url = urlsplit(parts["blobendpoint"])
        scheme, host, own = url.scheme, url.netloc, url.path.strip("/")
        if not own and host.startswith(f"{name or host.partition('.')[0]}."):
            name = name or host.partition(".")[0]
            blob = host.removeprefix(name)
            dfs = f".dfs{blob.removeprefix('.blob')}" if blob.startswith(".blob.") else blob
        else:
            name, blob, dfs = name or own, host, host
        if not name or own not in ("", name):
            raise OptionError(f"the BlobEndpoint of {CONNECTION} does not name the account")
    sas = _token(parts.get("sharedaccesssignature", ""))
    return AzureAccount(name, parts.get("accountkey"), sas, (), blob, dfs, scheme)


def azure_files(address: str) -> tuple[fs.FileSystem, str]:
    """Return pyarrow's file system of an account, and the path in it; raises OptionError."""
    if "credential_kind=" in address:  # pyarrow's own ways of looking for a login
        files, path = fs.FileSystem.from_uri(address)
        return files, str(path)
    place = azure_place(address)
    account = place.account
    files = fs.AzureFileSystem(
        account_name=account.name,
        account_key=account.key if account.sas is None else None,
        sas_token=account.sas,
        blob_storage_authority=account.blob,
        dfs_storage_authority=account.dfs,
        blob_storage_scheme=account.scheme,
        dfs_storage_scheme=account.scheme,
        **dict(zip(CLIENT, account.client, strict=False)),
    )
    return files, f"{place.container}/{place.key}".rstrip("/")
