"""What messages of a broker are streamed by: the texts of Spark's options, read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa

from trailgate.brokers.address import BrokerAddress
from trailgate.errors import OptionError
from trailgate.jobs.capture.loading import Loaded, load, warn_ignored
from trailgate.jobs.receive.receivers import check_journalled
from trailgate.jobs.receive.source import URL, broker_address
from trailgate.messages.capture import Capture
from trailgate.messages.parsing.message_ids import MessageIdRule
from trailgate.operations.projection import Projection
from trailgate.options import COUNT, FLAG, NAMES, PATH, TEXT, Option, Options, choice
from trailgate.spark.options import BASE, one_path, read_with_paths

SPLIT_BYTES: Final = 16 << 20
IDLE_SECONDS: Final = 2
OPTIONS: Final = Options(
    "jms",
    (
        Option("url", TEXT, "the broker's queue or topic, as stomp://HOST/QUEUE"),
        Option("user", TEXT, "the user, where the url names none"),
        Option("password", TEXT, "the password, where the url has none"),
        Option("receive", FLAG, "false: follow the journal, which somebody else fills"),
        Option("properties", PATH, "the capture's properties: operations instead of messages"),
        Option("extract", PATH, "an Extract parameter file that names them"),
        Option("ignore_unsupported", FLAG, "capture without what is not obeyed", False),
        Option("table", TEXT, "this table's operations in the types of its columns"),
        Option("columns", NAMES, "only these columns, comma-separated"),
        Option(
            "on_error",
            choice({"stop": "stop", "quarantine": "quarantine"}),
            "stop at the first bad message, or quarantine those of its transaction beside the journal",
            "stop",
        ),
        Option("max_messages_per_trigger", COUNT, "a stream's batch: at most so many messages"),
        Option("split_bytes", COUNT, "how many bytes of messages a task parses", SPLIT_BYTES),
        Option(
            "idle_seconds",
            COUNT,
            "availableNow ends where nothing came for so long",
            IDLE_SECONDS,
        ),
        BASE,
    ),
)
MESSAGES: Final = pa.schema(
    [
        ("number", pa.int64()),
        ("id", pa.string()),
        ("received", pa.timestamp("us", "UTC")),
        ("headers", pa.map_(pa.string(), pa.string())),
        ("body", pa.binary()),
        ("fault", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class JmsOptions:
    """The journal, the broker that fills it (None: somebody else does), and what makes operations of its messages, if anything does.

    ``quarantine`` is the folder of bad messages; None: they stop the stream.
    """

    journal: Path
    address: BrokerAddress | None
    capture: Capture | None
    projection: Projection | None
    quarantine: Path | None
    most: int | None
    split_bytes: int
    idle_seconds: float

    @classmethod
    def of(cls, given: Mapping[str, Any], folder: str | None = None) -> Self:
        """Return the options of Spark's texts; relative paths are from ``folder``. Raises OptionError."""
        paths, values = read_with_paths(OPTIONS, given, '.load("dirdat/ot.journal")', folder)
        journal = Path(one_path(paths, "a stream of the format jms"))
        loaded = _loaded(values)
        projection = None if loaded is None else _projection(values, loaded.capture)
        return cls(
            journal,
            _address(values, {} if loaded is None else dict(loaded.connection)),
            None if loaded is None else loaded.capture,
            projection,
            _quarantine(journal, values),
            values["max_messages_per_trigger"],
            values["split_bytes"],
            values["idle_seconds"],
        )

    @property
    def message_ids(self) -> MessageIdRule | None:
        """Return how the ids of messages are compared; None: they are not."""
        return None if self.capture is None else MessageIdRule.of(self.capture.options)

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows: operations, or messages."""
        return MESSAGES if self.projection is None else self.projection.schema


def _loaded(values: Mapping[str, Any]) -> Loaded | None:
    """Return what makes operations, None where nothing is named."""
    if values["properties"] is None and values["extract"] is None:
        for name in ("table", "columns", "on_error"):
            if values[name] is not None and values[name] != "stop":
                problem = f"the option {name} is about operations"
                hint = "They are made by the option properties, or extract"
                raise OptionError(problem, hint=hint)
        return None
    loaded = load(
        values["properties"],
        values["extract"],
        base=values["base"],
        ignore_unsupported=values["ignore_unsupported"],
    )
    warn_ignored(loaded)
    return loaded


def _quarantine(journal: Path, values: Mapping[str, Any]) -> Path | None:
    return (
        journal.with_name(f"{journal.name}.quarantine")
        if values["on_error"] == "quarantine"
        else None
    )


def _projection(values: Mapping[str, Any], capture: Capture) -> Projection:
    table = None if values["table"] is None else capture.definitions.table(values["table"])
    return Projection.of(table, values["columns"])


def _address(values: Mapping[str, Any], connection: Mapping[str, str]) -> BrokerAddress | None:
    """Return what fills the journal: the option's url, or what the properties name."""
    url, wanted = values["url"], values["receive"]
    named = url is not None or URL in connection
    if wanted is False or not named:
        if wanted or (wanted is False and url is not None):
            problem = (
                "receive is true, and no url is given"
                if wanted
                else "receive is false, and a url is given"
            )
            raise OptionError(problem, hint="As url=stomp://HOST/QUEUE, without receive")
        return None
    given = {"jms.user": values["user"], "jms.password": values["password"]}
    known = {**connection, **{name: text for name, text in given.items() if text is not None}}
    address = broker_address(() if url is None else (url,), known)
    if address is None:
        problem = "the option url is not the address of a broker"  # it may have a password
        raise OptionError(problem, hint="As stomp://HOST/QUEUE or amqp://HOST/QUEUE")
    check_journalled(address)
    return address
