"""The errors of a live capture and of the publication beside it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from trailgate.cli import companion_publish
from trailgate.errors import BrokerError, StorageError


class _Failing:
    """A publication that cannot be finished."""

    def __init__(self, *_: object) -> None:
        pass

    def finish(self) -> None:
        raise BrokerError("the broker is gone")


def test_the_error_of_a_publication_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The capture raises it between two batches, and the publication again at its end."""
    failure = BrokerError("the broker is gone")

    class Ended(_Failing):
        def finish(self) -> None:
            raise failure

    monkeypatch.setattr(companion_publish, "CompanionPublish", Ended)
    caplog.set_level(logging.WARNING, "trailgate.brokers")
    output: Any = None

    with (
        pytest.raises(BrokerError, match="the broker is gone"),
        companion_publish.publish_beside("dirdat/ot", "kafka://localhost/t", "json", output),
    ):
        raise failure
    assert not caplog.records


def test_the_error_of_a_capture_is_raised_although_publishing_fails_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(companion_publish, "CompanionPublish", _Failing)
    caplog.set_level(logging.WARNING, "trailgate.brokers")
    output: Any = None

    with (
        pytest.raises(StorageError, match="the disk is full"),
        companion_publish.publish_beside("dirdat/ot", "kafka://localhost/t", "json", output),
    ):
        raise StorageError("the disk is full")
    with (
        pytest.raises(BrokerError, match="the broker is gone"),
        companion_publish.publish_beside("dirdat/ot", "kafka://localhost/t", "json", output),
    ):
        pass
