"""Certificates for brokers that speak TLS: an authority of the test's own, and what it signs, by the program openssl."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from brokers.real_brokers import run

STORE_PASSWORD: Final = "store word"


class Certificates:
    """Files below a folder: ``ca`` signs, ``other`` signs nothing; ``store`` and ``trust`` are a broker's, in PKCS12."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("no certificates: the program openssl is not installed")
        self._folder = folder
        self.ca = self._authority("ca")
        self.other = self._authority("other")
        self.store = self._store("server", "subjectAltName=IP:127.0.0.1", "127.0.0.1")
        self.misnamed = self._store("misnamed", "subjectAltName=DNS:elsewhere.example.com")
        self._store("client", "extendedKeyUsage=clientAuth")
        self.client, self.key = folder / "client.pem", folder / "client.key"
        self.trust = folder / "trust.p12"
        run(
            [
                "keytool", "-importcert", "-noprompt", "-file", self.ca, "-alias", "ca", "-keystore", self.trust,
                "-storetype", "PKCS12", "-storepass", STORE_PASSWORD,
            ]
        )  # fmt: skip

    def _authority(self, name: str) -> Path:
        path = self._folder / f"{name}.pem"
        run(
            [
                "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", path.with_suffix(".key"),
                "-out", path, "-days", 2, "-subj", f"/CN={name} of a test",
            ]
        )  # fmt: skip
        return path

    def _store(self, name: str, extension: str, subject: str = "") -> Path:
        """Return the store of a key with its certificate."""
        path = self._folder / f"{name}.pem"
        request, key, config = (path.with_suffix(end) for end in (".csr", ".key", ".cnf"))
        config.write_text(f"{extension}\n")
        run(
            [
                "openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request,
                "-subj", f"/CN={subject or name}",
            ]
        )  # fmt: skip
        run(
            [
                "openssl", "x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.ca.with_suffix(".key"),
                "-CAcreateserial", "-out", path, "-days", 2, "-extfile", config,
            ]
        )  # fmt: skip
        store = path.with_suffix(".p12")
        run(
            [
                "openssl", "pkcs12", "-export", "-in", path, "-inkey", key, "-out", store,
                "-passout", f"pass:{STORE_PASSWORD}",
            ]
        )  # fmt: skip
        return store
