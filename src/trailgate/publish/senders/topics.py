"""Derive the names of Kafka topics from tables by a template such as ``shop.${schema}.${table}``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from string import Template
from typing import Final

import numpy as np

from trailgate.errors import OptionError
from trailgate.model.table_names import join_table_name, split_table_name, unquote
from trailgate.publish.message_origins import MessageOrigins

FIELDS: Final = ("schema", "table")
MARKS: Final = "transaction"  # the last part of the topic of BEGIN and END events
EVENTS: Final = "BEGIN and END events"
LONGEST: Final = 249  # characters of the name of a Kafka topic
# A topic's name has letters, digits, . _ and -; others become _, and .. becomes a single point.
_OTHER: Final = re.compile("[^A-Za-z0-9._-]")
_POINTS: Final = re.compile(r"\.\.+")


class TopicNames:
    """Assigns Kafka topics to tables by a template such as ``shop.${schema}.${table}``.

    Characters that are not allowed in topics become underscores. It is an error if two tables have
    the same topic as a result, or two schemas if the template has only ``${schema}``. ``reserved``
    is a topic that is not allowed for any table.
    """

    def __init__(self, template: str, reserved: str) -> None:
        self._text, self._template, self._reserved = template, Template(template), reserved
        wrong = [one for one in self._template.get_identifiers() if one not in FIELDS]
        if wrong or not self._template.is_valid():
            problem = f"the topic {template} has a field that is not known"
            raise OptionError(problem, hint="Fields are ${schema} and ${table}")
        self.is_by_table = "table" in self._template.get_identifiers()
        self._has_fields = bool(self._template.get_identifiers())
        self._known: dict[str, str] = {}  # topics by table
        self._owners: dict[str, str] = {}  # what is published to a topic
        self._first: list[str] = []  # the first table of each topic

    def check_fields(self, *, is_whole: bool) -> None:
        """Raise OptionError if the topic template contains the name of a table, but a message may contain operations of several tables."""
        if self._has_fields and is_whole:
            problem = f"the topic {self._text} depends on the table, but a message holds a transaction of several"
            raise OptionError(problem, hint="Publish with --content row, or to one topic")

    @property
    def tables(self) -> tuple[str, ...]:
        """One table for each topic that was assigned so far, or none if there is only one topic.

        If topics depend on the schema alone, this is the first table of each schema.
        """
        return tuple(self._first) if self._has_fields else ()

    def remember(self, tables: Iterable[str]) -> None:
        """Assign topics to the tables of earlier runs.

        Raises OptionError if two tables, or two schemas, would share a topic.
        """
        for name in tables:
            self._of_table(name)

    def of_messages(self, origins: MessageOrigins) -> list[str]:
        """Return the Kafka topic of each message by its table.

        A message without a table gets the template itself as its topic, or "" if the template has
        fields. BEGIN and END events have a topic of their own. Raises OptionError if two tables, or
        two schemas, would share a topic.
        """
        numbers = origins.tables.dictionary_encode()
        topics = [self._of_table(name) for name in numbers.dictionary.to_pylist()]
        # After the topics of the tables come the one of messages without a table, which nulls select,
        # and the one of marks. Example: tables A, null, A and a mark last: codes are 0 1 2.
        topics.append(self._of_none())
        codes = numbers.indices.fill_null(len(topics) - 1).to_numpy(zero_copy_only=False)
        if origins.marks.any():
            codes = np.where(origins.marks, len(topics), codes)
            topics.append(self._of_marks())
        # All messages of a topic share its string, which takes less time than new strings do.
        named: list[str] = np.array(topics, object)[codes].tolist()
        return named

    def _of_none(self) -> str:
        return "" if self._has_fields else self._clean(self._text)

    def _of_marks(self) -> str:
        text = self._template.substitute(schema="", table=MARKS)
        topic = self._clean(text if self.is_by_table else f"{text}.{MARKS}")
        self._reserve(topic, EVENTS, "Publish with --option transactions=false, or to other topics")
        return topic

    def _reserve(self, topic: str, owner: str, hint: str) -> None:
        """Reserve a Kafka topic for its owner.

        Raises OptionError if the topic belongs to a different owner.
        """
        other = self._owners.setdefault(topic, owner)
        if other != owner:
            problem = f"{other} and {owner} would have the same topic {topic}"
            raise OptionError(problem, hint=hint)

    def _of_table(self, name: str) -> str:
        known = self._known.get(name)
        if known is not None:
            return known
        parts = list(map(unquote, split_table_name(name))) or [name]
        topic = self._clean(self._template.substitute(schema=".".join(parts[:-1]), table=parts[-1]))
        if topic == self._reserved:
            problem = f"the topic of the table {name} would be {topic}, which is reserved for the positions of publications"
            raise OptionError(problem, hint="Publish to another topic")
        is_new = topic not in self._owners
        owner = self._owner(name, join_table_name(parts[:-1]))
        self._reserve(topic, owner, "Publish them one by one, with --tables and --group")
        if is_new:
            self._first.append(name)
        self._known[name] = topic
        return topic

    def _owner(self, table: str, schema: str) -> str:
        """Return the owner of a table's Kafka topic, for errors: the table, its schema, or all tables.

        This depends on the fields of the template.
        """
        if self.is_by_table:
            return f"the table {table}"
        if not self._has_fields:
            return "tables"
        return f"the schema {schema}" if schema else "tables without a schema"

    def _clean(self, text: str) -> str:
        topic = _POINTS.sub(".", _OTHER.sub("_", text)).strip(".")
        if topic == self._reserved:
            problem = f"{topic} is reserved for the positions of publications"
            raise OptionError(problem, hint="Publish to another topic")
        if len(topic) > LONGEST or not topic:
            problem = f"{topic} is not the name of a topic: it must have 1 to {LONGEST} characters"
            raise OptionError(problem)
        return topic
