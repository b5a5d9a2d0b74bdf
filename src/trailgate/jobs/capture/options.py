"""The options of a capture, declared once for the command line and for Spark's formats.

`trailgate/options.py` describes the notation. This module imports neither pyarrow nor numpy,
because `trailgate capture --help` loads it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from trailgate.options import COUNT, PATH, PATHS, TEXT, Flag
from trailgate.storage.writing.options import (
    ByteOrderName,
    FormatRelease,
    MaxBytes,
    SeqDigits,
    UpdateFormatName,
)

LEAST_REMEMBERED: Final = 10_000  # ids: many times the messages that brokers send ahead
Properties = Annotated[str | None, PATH, Flag("FILE"), "The properties file of the capture."]
Extract = Annotated[
    str | None, PATH, Flag("FILE"), "An Extract parameter file that names the properties file."
]
MessagePer = Annotated[
    Literal["file", "line"],
    "Whether each file or each line is a message; .jsonl files always have one per line.",
]
OnError = Annotated[
    Literal["stop", "quarantine"],
    "Stop at a bad message, or move it to PREFIX.quarantine.jsonl and continue.",
]
IgnoreUnsupported = Annotated[
    bool, "Capture without the parameters that are not supported, and list them."
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureArguments:
    """The arguments of a capture, on the command line and as options of Spark.

    Each field is a flag of `trailgate capture`, in the order of its help.
    """

    source: Annotated[
        list[str],
        PATHS,
        Flag("PATH", "--from"),
        "A folder of messages, a file, a pattern, or - (stdin); repeatable. Or a broker, such as stomp://HOST/QUEUE.",
    ] = field(default_factory=list)
    properties: Properties = None
    extract: Extract = None
    target: Annotated[
        str | None, PATH, Flag("PREFIX", "--to"), "The trail to write, such as dirdat/ot."
    ] = None
    apply_to: Annotated[
        str | None,
        TEXT,
        Flag("ADDRESS", "--apply"),
        "Also apply the trail to tables, such as delta:lake/.",
    ] = None
    publish_to: Annotated[
        str | None,
        TEXT,
        Flag("ADDRESS", "--publish"),
        "Also publish the trail to a broker, such as kafka://HOST/TOPIC.",
    ] = None
    publish_format: Annotated[
        str,
        TEXT,
        Flag("FORMAT"),
        "With --publish: the messages, as of trailgate publish. Values: delimited, xml, json, debezium.",
    ] = "delimited"
    definitions: Annotated[
        str | None,
        PATH,
        Flag("FILE"),
        "The definitions file, instead of the one named in the properties.",
    ] = None
    message_per: MessagePer = "file"
    on_error: OnError = "stop"
    max_bad: Annotated[
        int | None,
        COUNT,
        Flag("N", least=0),
        "Publish nothing if there are more bad messages than this.",
    ] = None
    max_bytes: MaxBytes = None
    seq_digits: SeqDigits = 9
    format_release: FormatRelease = None
    byte_order: ByteOrderName = None
    update_format: UpdateFormatName = None
    no_compress_updates: Annotated[bool, "Write all columns of updates (NOCOMPRESSUPDATES)."] = (
        False
    )
    update_befores: Annotated[bool, "Write the before values of updates (GETUPDATEBEFORES)."] = (
        False
    )
    no_compress_deletes: Annotated[bool, "Write all columns of deletes (NOCOMPRESSDELETES)."] = (
        False
    )
    ignore_unsupported: IgnoreUnsupported = False
    base: Annotated[
        str | None,
        PATH,
        Flag("FOLDER"),
        "The folder that relative paths start from, also those inside the files.",
    ] = None
    again: Annotated[bool, "Capture again what this trail already has."] = False
    unordered_ids: Annotated[bool, "Accept sequence ids that decrease or repeat."] = False
    follow: Annotated[bool, "Receive from a broker until stopped."] = False
    until_empty: Annotated[bool, "Receive from a broker until no more messages arrive."] = False
    remember_ids: Annotated[
        int | None,
        COUNT,
        Flag("N", least=LEAST_REMEMBERED),
        "How many message ids are remembered, to recognize redelivered messages; default 200000.",
    ] = None
    metrics: Annotated[
        str | None,
        TEXT,
        Flag("PORT|FILE"),
        "Metrics of a broker capture for Prometheus: a port to serve them at, or a .prom file.",
    ] = None
    dry_run: Annotated[bool, "Parse and report, without writing anything."] = False
    as_json: Annotated[bool, Flag(name="--json"), "Print the summary as a JSON object."] = False
    master: Annotated[str | None, TEXT, Flag("MASTER"), "Run on Spark, such as local[2]."] = None
    threads: Annotated[
        int | None, COUNT, Flag("N", least=1), "The number of threads; default one per core."
    ] = None
