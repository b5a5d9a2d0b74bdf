"""Accounts of Azure: forms of addresses, and the variables of its command line."""

from __future__ import annotations

import pytest

from trailgate.errors import OptionError, mask_logins
from trailgate.storage.files.cloud_addresses import BLOB, AzurePath, parse_azure_address
from trailgate.storage.stores.writable_stores import writable_store

VARIABLES = ("CONNECTION_STRING", "ACCOUNT", "KEY", "SAS_TOKEN")


@pytest.fixture(autouse=True)
def _nothing_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)


def stated(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    for name, value in values.items():
        monkeypatch.setenv(f"AZURE_STORAGE_{name}", value)


def named(place: AzurePath) -> tuple[str, ...]:
    return (place.account.url, place.container, place.key, place.shown)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("abfs://c@acct.dfs.core.windows.net/d/x", (f"https://acct{BLOB}", "c", "d/x")),
        ("abfss://c@acct.dfs.core.windows.net", (f"https://acct{BLOB}", "c", "")),
        ("abfs://acct.blob.core.windows.net/c/a%20b", (f"https://acct{BLOB}", "c", "a b")),
        ("abfs://c@a1.dfs.core.cloud.cn/x", ("https://a1.blob.core.cloud.cn", "c", "x")),
        ("abfs://acct@host:10/c/x?enable_tls=false", ("http://host:10/acct", "c", "x")),
        ("abfs://acct@c/d/x", (f"https://acct{BLOB}", "c", "d/x")),
        (
            "abfs://acct@c/x?blob_storage_authority=h:1&dfs_storage_authority=h:1",
            ("https://h:1/acct", "c", "x"),
        ),
    ],
)
def test_each_form_of_an_address_names_account_container_and_key(
    address: str, expected: tuple[str, ...]
) -> None:
    place = parse_azure_address(address)

    assert named(place)[:3] == expected
    assert (
        parse_azure_address(f"{place.shown}/{place.key}".replace(" ", "%20")).container
        == expected[1]
    )


def test_the_address_is_shown_as_it_was_asked_for_without_its_login() -> None:
    for asked, shown in (
        ("abfs://c:a%2Fb@a.dfs.core.windows.net/x", "abfs://c@a.dfs.core.windows.net"),
        ("abfs://a:b@h:1/c/x?enable_tls=false", "abfs://a@h:1/c"),
        ("abfs://:k@a.blob.core.windows.net/c/x", "abfs://a.blob.core.windows.net/c"),
    ):
        place = parse_azure_address(asked)
        assert place.shown == shown
        assert place.account.key in ("a/b", "b", "k")
        assert "key=" not in repr(place.account)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("abfs://container/x", "does not name its account"),
        ("abfs://a.blob.core.windows.net/", "does not name its container"),
        ("abfs://c@a.dfs.core.windows.net/x?sas=1", "the parameter sas of an Azure address"),
        ("abfs://a@h:1x/c", "h:1x is not an Azure host"),
        ("abfs://c@a.dfs.core.windows.net/x?tenant_id=1", "is a key, or tenant_id, client_id"),
    ],
)
def test_unsupported_parameters_are_refused(address: str, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        writable_store(address, "a test")


def test_a_login_of_the_environment_is_for_its_account_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stated(monkeypatch, ACCOUNT="mine", KEY="a2V5")

    assert parse_azure_address("abfs://c@mine.dfs.core.windows.net/x").account.key == "a2V5"
    assert parse_azure_address("abfs://c@other.dfs.core.windows.net/x").account.key is None
    assert parse_azure_address("abfs://c/x").account.url == f"https://mine{BLOB}"
    assert parse_azure_address("abfs://mine:b3du@c/x").account.key == "b3du"
    stated(monkeypatch, SAS_TOKEN="?sv=1&sig=s", KEY="")
    assert parse_azure_address("abfs://c/x").account.sas == "sv=1&sig=s"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("AccountName=a;AccountKey=k==;EndpointSuffix=core.cn", "https://a.blob.core.cn"),
        ("BlobEndpoint=https://a.blob.x.net/;SharedAccessSignature=sv=1", "https://a.blob.x.net"),
        ("AccountName=a;AccountKey=k;BlobEndpoint=http://h:1/a", "http://h:1/a"),
    ],
)
def test_connection_strings_are_understood(
    monkeypatch: pytest.MonkeyPatch, text: str, url: str
) -> None:
    stated(monkeypatch, CONNECTION_STRING=text)

    assert parse_azure_address("abfs://c/x").account.url == url
    assert parse_azure_address("abfs://c/x").account.has_login


def test_a_connection_string_without_an_account_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stated(monkeypatch, CONNECTION_STRING="BlobEndpoint=http://h:1/")

    with pytest.raises(OptionError, match="BlobEndpoint of AZURE_STORAGE_CONNECTION_STRING"):
        parse_azure_address("abfs://c/x")


def test_logins_of_azure_are_masked() -> None:
    for text, shown in (
        ("abfs://a:b/c+d==@host:1/c/x", "abfs://***@host:1/c/x"),
        ("abfs://c/x?client_secret=s3&tenant_id=t", "abfs://c/x?client_secret=***&tenant_id=t"),
        ("https://a/x?sv=1&sig=ab%2F", "https://a/x?sv=1&sig=***"),
    ):
        assert mask_logins(text) == shown
