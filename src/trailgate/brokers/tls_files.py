"""The files of certificates that an address names."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trailgate.brokers.address import BrokerAddress
from trailgate.errors import OptionError, Where

FILES: Final = ("ca", "cert", "key")


def check_tls_files(address: BrokerAddress) -> None:
    """Raise OptionError for a file that cannot be opened, or that is for an encrypted connection, which this is not."""
    for name in FILES:
        path = address.options.get(name)
        if path is None:
            continue
        where = Where(source=str(address), field=name)
        if not address.tls:
            problem = f"{path} is for an encrypted connection, and {address.protocol} is not"
            raise OptionError(problem, where=where)
        try:
            with Path(path).open("rb"):
                pass
        except OSError as error:
            raise OptionError(f"cannot open {path}: {error.strerror}", where=where) from None
