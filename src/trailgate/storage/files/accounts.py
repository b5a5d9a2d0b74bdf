"""How stores are reached: their addresses as pyarrow.fs understands them, and the variables of each cloud's own tools.

An address has a login before its host, and parameters after its question mark; one that is not obeyed is refused.

    Azure   ``abfs://container@account.dfs.core.windows.net/dirdat/ot``, ``abfs://account.blob.core.windows.net/container/dirdat/ot``,
            ``abfs://account@host:10000/container/dirdat/ot`` and ``abfs://account@container/dirdat/ot``; a key follows the user's name and a colon
    Google  ``gs://bucket/dirdat/ot``; ``gs://anonymous@bucket/dirdat/ot?endpoint_override=host:port&scheme=http`` for other servers
    S3      ``s3://KEY:SECRET@bucket/dirdat/ot?region=...&endpoint_override=...``
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from pyarrow import fs

from trailgate.errors import OptionError


class Refusal(NamedTuple):
    """How a parameter is refused: {} is its name in ``problem``, and the names of those that are obeyed in ``hint``."""

    problem: str
    hint: str


def obeyed_parameters(query: str, obeyed: Collection[str], refusal: Refusal) -> dict[str, str]:
    """Return the parameters of a query; raises OptionError for one that is not obeyed."""
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name in given:
        if name not in obeyed:
            hint = refusal.hint.format(", ".join(sorted(obeyed)))
            raise OptionError(refusal.problem.format(name), hint=hint)
    return given


BLOB, DFS = ".blob.core.windows.net", ".dfs.core.windows.net"
# An account's own host: of the public cloud, of a national one, or of an emulator.
HOST: Final = re.compile(r"(?P<account>[a-z0-9-]+)\.(?P<service>blob|dfs)(?P<suffix>\.[^/]+)")
CLIENT: Final = ("tenant_id", "client_id", "client_secret")
AZURE_OBEYED: Final = frozenset(
    {"blob_storage_authority", "dfs_storage_authority", "enable_tls", *CLIENT}
)
AZURE_REFUSED: Final = Refusal(
    "the parameter {} of an address of Azure is not obeyed", "These are: {}"
)
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
    given = obeyed_parameters(url.query, AZURE_OBEYED, AZURE_REFUSED)
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
    account = _complete(_with_parameters(account, given))
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


def _complete(account: AzureAccount) -> AzureAccount:
    """Return the account with what the environment states of it: nothing where the variables are another account's."""
    if account.has_login:
        return account
    connection = os.environ.get(CONNECTION, "")
    stated = _connect(connection) if connection else _state()
    if not stated.name or account.name not in ("", stated.name):
        return account
    if (account.blob, account.dfs) == (BLOB, DFS) and account.scheme == "https":
        return stated
    return replace(account, name=stated.name, key=stated.key, sas=stated.sas)


def _state() -> AzureAccount:
    return AzureAccount(
        os.environ.get("AZURE_STORAGE_ACCOUNT", ""),
        os.environ.get("AZURE_STORAGE_KEY") or None,
        _token(os.environ.get("AZURE_STORAGE_SAS_TOKEN", "")),
    )


def _token(text: str) -> str | None:
    return text.removeprefix("?") or None


def _connect(text: str) -> AzureAccount:
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


GOOGLE_OBEYED: Final = frozenset({"endpoint_override", "scheme"})
GOOGLE_REFUSED: Final = Refusal(
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
    given = obeyed_parameters(url.query, GOOGLE_OBEYED, GOOGLE_REFUSED)
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


# Of pyarrow's parameters those that mean something where objects are put; the others would be obeyed by reading alone.
S3_OBEYED: Final = frozenset({"region", "scheme", "endpoint_override", "force_virtual_addressing"})
S3_REFUSED: Final = Refusal(
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
    given = obeyed_parameters(url.query, S3_OBEYED, S3_REFUSED)
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
