"""The library that has the protocol of AMQP 1.0: python-qpid-proton, an extra."""

from __future__ import annotations

from typing import Any

from trailgate.errors import MissingDependencyError


def proton() -> Any:
    """Return the library; raises MissingDependencyError."""
    try:
        import proton as library  # noqa: PLC0415  an extra
    except ImportError:
        problem = "AMQP needs python-qpid-proton"
        raise MissingDependencyError.of_extra(problem, "amqp") from None
    return library


def proton_functions() -> Any:
    """Return the functions of Proton C that the library is made of.

    For each delivery the library's own objects cost 13 µs, these functions 2 (decision 0044).
    """
    import cproton  # noqa: PLC0415  an extra

    return cproton
