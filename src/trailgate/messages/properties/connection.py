"""The properties that all parsers share: logging, connection, message ids, the parser's name."""

from __future__ import annotations

from typing import Final

from trailgate.messages.properties.rows import PropertyRow, ValueKind, idle_row

_JVM: Final = "no Java runs here"
_JNDI: Final = "messages come from files or a broker, not over JNDI"
_LOGGING: Final = "the run's own logging applies"
_BROKER: Final = "a capture from a broker uses it, where --from names none"
_REPORT: Final = "a capture from a broker obeys it; of files the run prints its own summary"

CONNECTION: Final[tuple[PropertyRow, ...]] = (
    idle_row("gg.log", "logging implementation", _LOGGING),
    idle_row("gg.log.level", "logging level", _LOGGING),
    idle_row("gg.log.file", "log file", _LOGGING, ValueKind.PATH),
    idle_row("gg.log.classpath", "where the logging JARs are", _LOGGING),
    idle_row("gg.log.*", "any other logging property", _LOGGING),
    idle_row("jvm.bootoptions", "options of the embedded JVM", _JVM),
    idle_row("jvm.*", "any other JVM property", _JVM),
    idle_row("jms.report.output", "where the JMS report goes: report, log, both", _REPORT),
    idle_row("jms.report.time", "report every interval, as in 30sec", _REPORT),
    idle_row("jms.report.records", "report every n records", _REPORT),
    idle_row("jms.destination", "JNDI name of the queue or topic", _BROKER),
    idle_row("jms.connectionFactory", "JNDI name of the connection factory", _JNDI),
    idle_row("jms.user", "user of the JMS connection", _BROKER),
    idle_row("jms.password", "password of the JMS connection", _BROKER),
    idle_row("java.naming.provider.url", "URL of the JNDI provider", _BROKER),
    idle_row("java.naming.factory.initial", "class of the JNDI context factory", _JNDI),
    idle_row("java.naming.security.principal", "JNDI user", _JNDI),
    idle_row("java.naming.security.credentials", "JNDI password", _JNDI),
    idle_row("java.naming.*", "any other JNDI property", _JNDI),
    PropertyRow(
        "jms.id",
        ValueKind.TEXT,
        "what `$jmsid` is: `ogg`, `time`, `wmq`, `activemq`, or the name of a message header; such ids are compared",
        "capture properties §2.1",
    ),
    PropertyRow(
        "parser.type",
        ValueKind.CHOICE,
        "which parser reads the messages",
        "capture properties §3",
        choices=("fixed", "delim", "xml", "event_publishing", "json", "debezium"),
    ),
)
