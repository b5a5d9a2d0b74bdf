"""Parse the addresses of Azure, Google and S3 stores, and combine them with the environment variables of the clouds' tools.

An address may have a login before its host, and parameters after a question mark. Unknown
parameters are refused.

    Azure   ``abfs://container@account.dfs.core.windows.net/dirdat/ot``,
            ``abfs://account.blob.core.windows.net/container/dirdat/ot``,
            ``abfs://account@host:10000/container/dirdat/ot``, ``abfs://account@container/dirdat/ot``;
            an account key follows the part before the @: ``abfs://account:KEY@container/dirdat/ot``
    Google  ``gs://bucket/dirdat/ot``, and for other servers
            ``gs://anonymous@bucket/dirdat/ot?endpoint_override=host:port&scheme=http``
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

BLOB, DFS = ".blob.core.windows.net", ".dfs.core.windows.net"
# The host of an account: in the public cloud, a national cloud, or an emulator.
HOST: Final = re.compile(r"(?P<account>[a-z0-9-]+)\.(?P<service>blob|dfs)(?P<suffix>\.[^/]+)")
CLIENT: Final = ("tenant_id", "client_id", "client_secret")
AZURE_OBEYED: Final = frozenset(
    {"blob_storage_authority", "dfs_storage_authority", "enable_tls", *CLIENT}
)

CONNECTION: Final = "AZURE_STORAGE_CONNECTION_STRING"

GOOGLE_OBEYED: Final = frozenset({"endpoint_override", "scheme"})

EMULATOR: Final = "STORAGE_EMULATOR_HOST"
SERVER: Final = "https://storage.googleapis.com"

# The parameters of pyarrow that writing can support. Others would only apply to reading.
S3_OBEYED: Final = frozenset({"region", "scheme", "endpoint_override", "force_virtual_addressing"})

ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


class RefusalTexts(NamedTuple):
    """The texts of the error for an unsupported parameter in a store's address.

    ``{}`` stands for the parameter's name in ``problem``, and for the list of supported parameters
    in ``hint``.
    """

    problem: str
    hint: str


def parse_parameters(query: str, obeyed: Collection[str], refusal: RefusalTexts) -> dict[str, str]:
    """Parse the parameters of a store's URI. Raises OptionError if one is not supported."""
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    for name in parameters:
        if name not in obeyed:
            hint = refusal.hint.format(", ".join(sorted(obeyed)))
            raise OptionError(refusal.problem.format(name), hint=hint)
    return parameters


AZURE_REFUSED: Final = RefusalTexts(
    "the parameter {} of an Azure address is not supported", "Supported: {}"
)


@dataclass(frozen=True, slots=True)
class AzureAccount:
    """How to access an Azure account.

    ``sas`` is a shared access token, and ``client`` the tenant id, client id and client secret of
    an application. Without a key, token or client, a login is looked up in the same order as by
    Azure's own tools. ``blob`` and ``dfs`` are host suffixes after the account's name, such as
    ``.blob.core.windows.net``, or complete hosts with the account in the path.
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
        """The URL of the Azure account's blobs."""
        own = f"{self.name}{self.blob}" if self.blob[0] == "." else f"{self.blob}/{self.name}"
        return f"{self.scheme}://{own}"

    @property
    def has_login(self) -> bool:
        """True if a login to the Azure account is given."""
        return bool(self.key or self.sas or self.client)


@dataclass(frozen=True, slots=True)
class AzurePath:
    """A path in an Azure container.

    ``shown`` is the address of the container as the user wrote it, without a login.
    """

    account: AzureAccount
    container: str
    key: str
    shown: str


def parse_azure_address(address: str) -> AzurePath:
    """Parse an Azure address, and complete it from the environment. Raises OptionError."""
    url = urlsplit(address)
    parameters = parse_parameters(url.query, AZURE_OBEYED, AZURE_REFUSED)
    login, _, host = url.netloc.rpartition("@")
    user, _, password = (unquote(part) for part in login.partition(":"))
    path = unquote(url.path).lstrip("/")
    account_host = HOST.fullmatch(host)
    account = AzureAccount(key=password or None)
    inside = True  # the container is the first part of the path
    if account_host:
        tail = account_host["suffix"]
        account = replace(
            account, name=account_host["account"], blob=f".blob{tail}", dfs=f".dfs{tail}"
        )
        # container@account.dfs.core.windows.net/key has the container before the host, and
        # account.blob.core.windows.net/container/key has it in the path.
        if account_host["service"] == "dfs":
            path, inside = f"{user}/{path}", False
    # Some other server, such as an emulator: the account is the user, the container in the path.
    elif "." in host or ":" in host:
        # Example: account@127.0.0.1:10000/container/key.
        account = replace(account, name=user, blob=host, dfs=host)
    else:
        # Example: account@container/key.
        account, inside = replace(account, name=user), False
        path = f"{host}/{path}"
    account = _complete(_with_parameters(account, parameters))
    for authority in (account.blob, account.dfs):
        _check_port(authority)
    container, _, key = path.partition("/")
    if not account.name or not container:
        missing = "container" if account.name else "account"
        hint = "For example, abfs://container@account.dfs.core.windows.net/dirdat/ot"
        raise OptionError(f"an Azure address does not name its {missing}", hint=hint)
    head = f"{url.scheme}://{user}{'@' if user else ''}{host}"
    return AzurePath(account, container, key, f"{head}/{container}" if inside else head)


def _check_port(authority: str) -> None:
    """Raise OptionError if the host of an Azure address has an invalid port.

    Such a host would crash pyarrow.
    """
    try:
        _ = urlsplit(f"//{authority}").port
    except ValueError as error:
        raise OptionError(f"{authority} is not an Azure host: {error}") from None


def _with_parameters(account: AzureAccount, parameters: Mapping[str, str]) -> AzureAccount:
    """Apply the parameters of an Azure address, such as ``enable_tls=false``, to its account."""
    client = tuple(parameters[name] for name in CLIENT if parameters.get(name))
    if client and (len(client) < len(CLIENT) or account.key):
        problem = "an Azure login is a key, or tenant_id, client_id and client_secret"
        raise OptionError(problem, hint="Use all three, or only a key")
    return replace(
        account,
        client=client,
        blob=parameters.get("blob_storage_authority") or account.blob,
        dfs=parameters.get("dfs_storage_authority") or account.dfs,
        scheme="http" if parameters.get("enable_tls", "").casefold() in ("0", "false") else "https",
    )


def _complete(account: AzureAccount) -> AzureAccount:
    """Complete an Azure account without a login from the environment, unless that is for another one."""
    if account.has_login:
        return account
    connection = os.environ.get(CONNECTION, "")
    stated = _parse_connection(connection) if connection else _account_of_environment()
    if not stated.name or account.name not in ("", stated.name):
        return account
    if (account.blob, account.dfs) == (BLOB, DFS) and account.scheme == "https":
        return stated
    return replace(account, name=stated.name, key=stated.key, sas=stated.sas)


def _account_of_environment() -> AzureAccount:
    """Return the account in ``AZURE_STORAGE_ACCOUNT`` and related variables; its name is "" if unset."""
    return AzureAccount(
        os.environ.get("AZURE_STORAGE_ACCOUNT", ""),
        os.environ.get("AZURE_STORAGE_KEY") or None,
        _token(os.environ.get("AZURE_STORAGE_SAS_TOKEN", "")),
    )


def _token(text: str) -> str | None:
    return text.removeprefix("?") or None


def _parse_connection(text: str) -> AzureAccount:
    """Parse an Azure connection string: ``AccountName=a;AccountKey=k;EndpointSuffix=core.windows.net``."""
    pairs = (pair.partition("=") for pair in text.split(";"))
    parts = {name.strip().casefold(): value for name, _, value in pairs}
    name, tail = parts.get("accountname", ""), parts.get("endpointsuffix", "core.windows.net")
    scheme = parts.get("defaultendpointsprotocol", "https")
    blob, dfs = f".blob.{tail}", f".dfs.{tail}"
    if "blobendpoint" in parts:
        # Examples: http://account.blob.localhost:10000, and http://127.0.0.1:10000/account.
        url = urlsplit(parts["blobendpoint"])
        scheme, host, path_name = url.scheme, url.netloc, url.path.strip("/")
        # The host may start with the account's name, or the path may have it.
        if not path_name and host.startswith(f"{name or host.partition('.')[0]}."):
            name = name or host.partition(".")[0]
            blob = host.removeprefix(name)
            dfs = f".dfs{blob.removeprefix('.blob')}" if blob.startswith(".blob.") else blob
        else:
            name, blob, dfs = name or path_name, host, host
        if not name or path_name not in ("", name):
            raise OptionError(f"the BlobEndpoint of {CONNECTION} does not name the account")
    sas = _token(parts.get("sharedaccesssignature", ""))
    return AzureAccount(
        name=name,
        key=parts.get("accountkey"),
        sas=sas,
        client=(),
        blob=blob,
        dfs=dfs,
        scheme=scheme,
    )


def azure_files(address: str) -> tuple[fs.FileSystem, str]:
    """Parse an Azure address: return pyarrow's file system of the account, and the path in it. Raises OptionError."""
    if "credential_kind=" in address:  # pyarrow's own ways to find a login
        files, path = fs.FileSystem.from_uri(address)
        return files, str(path)
    place = parse_azure_address(address)
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


GOOGLE_REFUSED: Final = RefusalTexts(
    "writing does not support the parameter {} of a Google address", "Supported: {}"
)


@dataclass(frozen=True, slots=True)
class GooglePath:
    """A path in a Google bucket. ``anonymous`` means access without a login."""

    bucket: str
    key: str
    server: str = SERVER
    anonymous: bool = False


def parse_google_address(address: str) -> GooglePath:
    """Parse a Google address, and complete it from the environment. Raises OptionError."""
    url = urlsplit(address)
    parameters = parse_parameters(url.query, GOOGLE_OBEYED, GOOGLE_REFUSED)
    user, _, bucket = url.netloc.rpartition("@")
    if user not in ("", "anonymous"):
        problem = "the only user that a Google address can have is anonymous"
        raise OptionError(problem, hint="Other logins are found as by Google's own tools")
    key = unquote(url.path).lstrip("/")
    server, anonymous = SERVER, bool(user)
    if parameters.get("endpoint_override"):
        server = f"{parameters.get('scheme', 'https')}://{parameters['endpoint_override']}"
    elif _emulator():
        server, anonymous = _emulator(), True
    return GooglePath(unquote(bucket), key, server, anonymous)


def _emulator() -> str:
    """Return the address of a Google storage emulator from the environment, or "" if it is not set."""
    stated = os.environ.get(EMULATOR, "").rstrip("/")
    return stated if "://" in stated or not stated else f"http://{stated}"


def google_files(address: str) -> tuple[fs.FileSystem, str]:
    """Parse a Google address: return pyarrow's file system of Google Cloud Storage, and the path in it. Raises OptionError."""
    if not _emulator() or "?" in address:
        files, path = fs.FileSystem.from_uri(address)
        return files, str(path)
    place = parse_google_address(address)
    scheme, _, host = place.server.partition("://")
    made = fs.GcsFileSystem(anonymous=True, scheme=scheme, endpoint_override=host)
    return made, f"{place.bucket}/{place.key}".rstrip("/")


S3_REFUSED: Final = RefusalTexts(
    "writing does not support the parameter {} of an S3 address", "Supported: {}"
)


@dataclass(frozen=True, slots=True)
class S3Settings:
    """How to access an S3 bucket.

    If a setting is None, botocore uses the environment, the AWS profile or the machine's role. With
    ``path_style``, requests name the bucket in their path instead of their host.
    """

    bucket: str
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    region: str | None = None
    endpoint: str | None = None
    path_style: bool = False


def parse_s3_address(address: str) -> tuple[S3Settings, str]:
    """Parse an S3 address into the settings of its bucket, and an object's key. Raises OptionError."""
    url = urlsplit(address)
    parameters = parse_parameters(url.query, S3_OBEYED, S3_REFUSED)
    user, _, host = url.netloc.rpartition("@")
    access, _, secret = user.partition(":")
    endpoint = parameters.get("endpoint_override")
    if endpoint and "://" not in endpoint:
        endpoint = f"{parameters.get('scheme', 'https')}://{endpoint}"
    custom_endpoint = bool(endpoint or any(os.environ.get(name) for name in ENDPOINTS))
    virtual = parameters.get("force_virtual_addressing", "").casefold() in ("1", "true")
    settings = S3Settings(
        unquote(host),
        unquote(access) or None,
        unquote(secret) or None,
        parameters.get("region"),
        endpoint,
        path_style=custom_endpoint and not virtual,
    )
    return settings, unquote(url.path).lstrip("/")
