"""Requests to the management of ActiveMQ Artemis, for all protocols.

A request is a message to the address ``MANAGEMENT``. Its properties name the object and the
operation or attribute, and its body is a JSON list of arguments. The answer is a message to the
request's reply-to address, whose body is a JSON list with the result.
"""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import Final, NamedTuple

MANAGEMENT: Final = "activemq.management"
CONSUMERS: Final = "consumerCount"
HELD: Final = "deliveringCount"  # messages that were delivered and not acknowledged
# The settings are a text, which is JSON again, with its quotes escaped.
_DROPS: Final = re.compile(r"addressFullMessagePolicy\W+DROP")


class ManagementQuestion(NamedTuple):
    """A request to Artemis: the properties and the body of its message."""

    properties: MappingProxyType[str, str]
    body: str = ""


def ask_attribute(queue: str, attribute: str) -> ManagementQuestion:
    """Build the request for an attribute of a queue of Artemis."""
    named = {"_AMQ_ResourceName": f"queue.{queue}", "_AMQ_Attribute": attribute}
    return ManagementQuestion(MappingProxyType(named))


def ask_settings(address: str) -> ManagementQuestion:
    """Build the request for the settings of an address of Artemis."""
    named = {"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "getAddressSettingsAsJSON"}
    return ManagementQuestion(MappingProxyType(named), json.dumps([address]))


def drops_messages(answer: str) -> bool:
    """Return whether an Artemis address drops messages when it is full (address-full-policy DROP).

    ``answer`` is the answer to the request of ``ask_settings``.
    """
    return _DROPS.search(answer) is not None
