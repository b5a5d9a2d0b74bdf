"""Notice a Kafka topic that is deleted, created again under its name, or given more partitions, and one that is compacted.

Offsets mean nothing in a topic that was created again: it has other messages at the offsets that
were captured before. So a broker's id of the topic (Kafka 2.8 and later) is asked for when a
receiver connects, and again every few seconds, without waiting for the answer.

In a compacted topic Kafka removes messages between others, when it has a newer one of their key.
Gaps of offsets do not show that, because transactions leave gaps too, so ``check_compaction`` asks
for the topic's setting.
"""

from __future__ import annotations

import time
from typing import Any, Final

from trailgate.errors import BrokerRefusedError, Where
from trailgate.live.brokers.address import BrokerAddress

INTERVAL: Final = 5.0  # seconds between two requests
# In a cluster that is starting, a broker may not know a topic yet.
UNKNOWN: Final = 2  # how many times in a row a topic must be unknown to count as deleted
NO_ID: Final = "A" * 22  # the broker gives no ids: a number of 16 zero bytes in Base64
ANEW: Final = "Its offsets begin again: receive it into a new trail"
ONE_ORDER: Final = "Receive each into a trail of its own: ?partition=0"


POLICY: Final = "cleanup.policy"
ALL_MESSAGES: Final = "Set its cleanup.policy to delete, or, to capture only the messages that Kafka retains, add compacted=allow to the address"


def check_compaction(address: BrokerAddress, admin: Any, seconds: float) -> str:
    """Raise BrokerRefusedError if the Kafka topic of an address is compacted, unless the address allows it.

    Waits up to ``seconds`` for the broker. Returns the reason if it does not state the setting,
    else "".
    """
    from confluent_kafka import KafkaException  # noqa: PLC0415  an extra
    from confluent_kafka.admin import ConfigResource  # noqa: PLC0415  an extra

    if "compacted" in address.options:
        return ""
    topic = ConfigResource(ConfigResource.Type.TOPIC, address.destination)
    try:
        settings = admin.describe_configs([topic], request_timeout=seconds)[topic].result()
    except KafkaException as error:
        return str(error.args[0].str())
    policy = settings[POLICY].value if POLICY in settings else ""
    if "compact" in policy.split(","):
        problem = f"the topic is compacted ({POLICY}={policy}): Kafka removes messages that were not captured yet"
        raise BrokerRefusedError(problem, where=Where(source=str(address)), hint=ALL_MESSAGES)
    return ""


def several_partitions_error(address: BrokerAddress, count: int) -> BrokerRefusedError:
    """Build the error for a Kafka topic with several partitions, of which the address names none."""
    # Kafka orders messages only within a partition, and a trail needs one order.
    problem = f"the topic has {count} partitions, and their messages have no common order"
    return BrokerRefusedError(problem, where=Where(source=str(address)), hint=ONE_ORDER)


class TopicWatch:
    """Watches the Kafka topic of an address.

    ``admin`` is an AdminClient of the library ``kafka``. ``id`` is the topic's id, or None while it
    is unknown.
    """

    def __init__(self, address: BrokerAddress, admin: Any, kafka: Any) -> None:
        self._address, self._admin, self._kafka = address, admin, kafka
        self._names_partition = "partition" in address.options
        self._request: Any = None
        self._due, self._unknown = 0.0, 0
        self.id: str | None = None

    def begin(self, seconds: float) -> str:
        """Request the topic's id, and wait up to ``seconds`` for it.

        Returns the reason if the broker does not give it, else "". Raises BrokerRefusedError as
        ``check`` does.
        """
        reason = self._take(self._describe(seconds))
        return reason or ("" if self.id else "the broker gives no ids of topics")

    def check(self) -> None:
        """Raise BrokerRefusedError if the last answer shows a change of the Kafka topic.

        Sends the next request if it is due. Returns at once in any case.
        """
        if self._request is not None and self._request.done():
            request, self._request = self._request, None
            self._take(request)
        if self._request is None and time.monotonic() >= self._due:
            self._request = self._describe(INTERVAL)
            self._due = time.monotonic() + INTERVAL

    def _describe(self, seconds: float) -> Any:
        """Return the future description of the Kafka topic."""
        name = self._address.destination
        topics = self._kafka.TopicCollection([name])
        return self._admin.describe_topics(topics, request_timeout=seconds)[name]

    def _take(self, request: Any) -> str:
        """Compare the description of the Kafka topic with the first one. Returns why there is none."""
        try:
            topic = request.result()
        except self._kafka.KafkaException as error:
            reason = error.args[0]
            is_unknown = reason.code() == self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
            self._unknown = self._unknown + 1 if is_unknown else 0
            if self._unknown == UNKNOWN:
                raise self._error("the topic was deleted") from None
            return str(reason.str())
        self._unknown = 0
        if not self._names_partition and len(topic.partitions) > 1:
            raise several_partitions_error(self._address, len(topic.partitions))
        found = str(topic.topic_id)
        if found != NO_ID:
            if self.id not in (None, found):
                raise self._error("the topic was deleted and created again", ANEW)
            self.id = found
        return ""

    def _error(self, problem: str, hint: str = "") -> BrokerRefusedError:
        return BrokerRefusedError(problem, where=Where(source=str(self._address)), hint=hint)
