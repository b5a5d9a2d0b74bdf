"""Accounts of Google Cloud Storage: addresses, and the variable that names an emulator."""

from __future__ import annotations

import pytest

from trailgate.errors import OptionError
from trailgate.storage.files.cloud_addresses import (
    EMULATOR,
    SERVER,
    google_files,
    parse_google_address,
)


def test_addresses_name_bucket_key_and_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(EMULATOR, raising=False)
    given = "gs://anonymous@b/a%20b?endpoint_override=h:1&scheme=http"

    plain, other = parse_google_address("gs://b/d/x"), parse_google_address(given)

    assert (plain.bucket, plain.key, plain.server, plain.anonymous) == ("b", "d/x", SERVER, False)
    assert (other.key, other.server, other.anonymous) == ("a b", "http://h:1", True)


def test_an_emulator_is_asked_without_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    for stated in ("http://h:1", "h:1", "http://h:1/"):
        monkeypatch.setenv(EMULATOR, stated)
        place = parse_google_address("gs://b/x")
        assert (place.server, place.anonymous) == ("http://h:1", True)
        assert google_files("gs://b/x")[1] == "b/x"


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("gs://b/x?project_id=1", "does not support the parameter project_id"),
        ("gs://token@b/x", "the only user that a Google address can have is anonymous"),
    ],
)
def test_unsupported_parameters_are_refused(address: str, problem: str) -> None:
    with pytest.raises(OptionError, match=problem) as caught:
        parse_google_address(address)

    assert "token" not in str(caught.value)
