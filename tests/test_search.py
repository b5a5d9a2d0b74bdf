"""The site's own search finds a page for what users ask, in their words.

The site is built once. Its ``search_index.json`` is then searched as the browser does it: ``search.js`` removes words such as "a", and the theme's search worker adds a wildcard to each
other word, weighs fields and pages as the index states, and raises sections that match more of the words. A question is answered if one of its pages is among the first three.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

lunr = pytest.importorskip("lunr")

from lunr.builder import Builder  # noqa: E402
from lunr.pipeline import Pipeline  # noqa: E402
from lunr.query import Query  # noqa: E402
from lunr.stop_word_filter import stop_word_filter  # noqa: E402

pytestmark = pytest.mark.xdist_group("site")  # one process builds the site

ROOT: Final = Path(__file__).parents[1]
FIRST: Final = 3
SCRIPT: Final = (ROOT / "docs/javascripts/search.js").read_text()
IGNORED: Final = set(
    re.findall(r'"([a-z ]+)"\.split', SCRIPT)[0].split()
)  # words that the page removes from queries
QUESTIONS: Final = {
    "tutorial": "tutorials/",
    "quickstart": "install tutorials/",
    "first capture from a file": "tutorials/",
    "what is a trail file": "tutorials/what-is-a-trail",
    "install debian externally managed": "install howto/troubleshooting",
    "pandas": "howto/read-in-python",
    "polars dataframe": "howto/read-in-python",
    "duckdb sql query": "howto/read-in-python cli",
    "databricks": "howto/read-on-spark",
    "spark structured streaming trail": "spark howto/read-on-spark",
    "read goldengate trail in python": "howto/read-in-python",
    "replace logdump": "howto/from-logdump logdump",
    "logdump filter": "logdump howto/from-logdump",
    "migrate from oracle adapter": "howto/from-the-adapter",
    "ibm mq": "howto/ibm-mq",
    "activemq artemis": "howto/artemis brokers",
    "rabbitmq virtual host": "howto/rabbitmq",
    "kafka sasl scram": "howto/kafka",
    "kafka tls certificate": "howto/kafka",
    "avro schema registry": "howto/kafka",
    "debezium": "tutorials/json howto/debezium json",
    "goldengate json": "json tutorials/json",
    "event publishing q replication": "publications tutorials/publications",
    "copybook": "copybook tutorials/fixed-width",
    "ebcdic packed decimal": "copybook tutorials/fixed-width",
    "comp-3": "glossary copybook",
    "xml xpath rules": "xml tutorials/xml",
    "add a table": "howto/new-table",
    "new column": "howto/new-table",
    "resume after crash": "howto/after-a-crash",
    "exactly once": "guarantees",
    "delta lake tables": "howto/apply",
    "replicat apply changes to a database": "howto/apply howto/from-replicat",
    "handlecollisions": "howto/apply howto/from-replicat",
    "bad message quarantine": "howto/bad-messages",
    "error message troubleshoot": "howto/troubleshooting",
    "no trail files here": "howto/troubleshooting",
    "table is not in the definitions": "howto/troubleshooting howto/new-table",
    "glossary rba csn": "glossary",
    "s3 bucket": "stores",
    "prometheus metrics monitoring": "live howto/run-every-day howto/apply",
    "striim cobrix comparison": "comparison",
    "docker container": "install howto/run-every-day",
    "parquet export": "howto/read-in-python cli",
    "share trail bug report anonymize redact": "howto/share-a-trail",
    "slow compile numba": "install howto/troubleshooting",
    # Sentences and words of people who know their task and not our pages.
    "how do I read a goldengate trail without a license": "howto/read-in-python tutorials/what-is-a-trail",
    "convert trail file to csv": "howto/read-in-python cli",
    "load cdc changes into postgres": "howto/apply",
    "upsert into delta lake": "howto/apply",
    "keep history of every row version scd2": "howto/apply",
    "soft delete": "howto/apply",
    "trail file is corrupt what can I save": "howto/after-a-crash recovery howto/troubleshooting cli",
    "message failed to parse skip it": "howto/bad-messages",
    "mq reader queue": "howto/ibm-mq",
    "prm file map target": "howto/from-replicat extract",
    "INSERTALLRECORDS": "howto/from-replicat howto/apply",
    "cobol redefines occurs depending": "copybook reference/copybooks",
    "variable length records rdw": "copybook howto/from-cobrix",
    "goldengate alternative price": "comparison",
    "run on kubernetes": "howto/run-every-day",
    "systemd service": "howto/run-every-day",
    "airflow": "howto/run-every-day",
    "cron job": "howto/run-every-day",
    "delete old trail files purge": "howto/run-every-day",
    "lag monitoring alert": "howto/run-every-day howto/apply live",
    "windows": "howto/run-every-day install",
    "view trail in browser": "howto/browse",
    "spark streaming checkpoint": "spark howto/read-on-spark",
    "azure blob storage": "stores",
    "db2 event publisher xml": "publications tutorials/publications",
    "kafka connect handler json format": "json tutorials/json",
    "ebcdic code page 037": "copybook properties tutorials/fixed-width",
    "timestamp format property": "properties",
    "defgen definitions file": "howto/new-table howto/from-the-adapter properties reference/",
    "count operations per table": "howto/from-logdump logdump cli howto/browse",
    "upgrade version compatibility": "versioning",
    "large files memory cluster": "scaling",
    "duplicate messages delivered twice": "guarantees live properties",
    "python version": "install",
    "timezone": "properties howto/read-on-spark spark operations-table",
    "start over from the beginning": "cli howto/after-a-crash howto/bad-messages spark",
    "support for goldengate 23": "format versioning unknown-records comparison",
    # Written before anyone looked at the results.
    "which java do I need": "install howto/read-on-spark",
    "out of memory": "scaling howto/troubleshooting install",
    "why is my capture slow": "scaling live howto/troubleshooting install",
    "table has no primary key": "properties howto/new-table howto/apply",
    "null or empty string": "properties",
    "encrypted trail": "format unknown-records howto/from-replicat tutorials/what-is-a-trail",
    "two captures at the same time": "guarantees live howto/run-every-day",
    "order of messages": "guarantees live properties",
    "broker restarts connection lost": "live howto/artemis howto/ibm-mq recovery brokers",
    "commit timestamp column": "operations-table howto/read-in-python spark",
    "before image of an update": "operations-table json glossary tutorials/what-is-a-trail properties",
    "decimal precision": "properties copybook howto/apply howto/debezium",
    "clob large object": "format operations-table unknown-records reference/trail-format",
    "write a trail from pandas": "howto/capture-in-python api howto/read-in-python",
    "filter rows by a column value": "extract cli spark howto/from-replicat",
    "rename columns in the target": "howto/from-replicat howto/apply extract",
    "kafka offset": "howto/kafka live",
    "dead letter queue": "howto/bad-messages live",
    "send changes to kafka": "json cli publications howto/debezium howto/kafka",
    "ebcdic file to parquet": "copybook tutorials/fixed-width howto/from-cobrix",
    "compare source and target rows": "howto/apply cli",
    "password in a file": "howto/ibm-mq live brokers stores howto/kafka",
}


class SiteSearch:
    """The theme's search over a built site, section by section."""

    def __init__(self, index: dict[str, Any]) -> None:
        config = index["config"]
        self._separator = re.compile(config["separator"])
        self._docs: dict[str, dict[str, Any]] = {}
        self._parents: dict[str, str] = {}
        builder = Builder()
        builder.b(0)
        builder.ref("location")
        assert config["pipeline"] == ["stopWordFilter"]
        builder.pipeline = Pipeline()
        builder.pipeline.add(stop_word_filter)
        builder.search_pipeline = Pipeline()
        for name, field in config["fields"].items():
            builder.field(name, boost=field["boost"], extractor=partial(self._words, name))
        for doc in index["docs"]:
            page = doc["location"].partition("#")[0]
            if page in self._docs:
                self._parents[doc["location"]] = page
            self._docs[doc["location"]] = doc
            builder.add(doc, {"boost": doc.get("boost", 1)})
        self._index = builder.build()

    def _words(self, field: str, doc: dict[str, Any]) -> list[str]:
        """Split a field as the browser does: outside of tags, at the index's separator."""
        value = doc.get(field) or ""
        strings = value if isinstance(value, list) else [value]
        texts = (part for one in strings for part in re.split(r"<[^>]*>", one))
        return [word for text in texts for word in self._separator.split(text) if word]

    def pages(self, question: str) -> list[str]:
        """Return the pages in the order in which the browser lists them."""
        kept = " ".join(one for one in question.split() if one.lower() not in IGNORED)
        words = [word.lower() for word in self._separator.split(kept or question) if word]

        def ask(query: Query) -> None:
            for word in words:
                query.term(word, wildcard=Query.WILDCARD_TRAILING)

        hits = []
        query = self._index.create_query()
        ask(query)
        for hit in self._index.query(query):
            asked = set(words)
            matched = {
                word
                for word in asked
                for term in hit["match_data"].metadata
                if term.startswith(word)
            }
            unmatched = {word for word in asked - matched if stop_word_filter(word)}
            share = len(matched) / max(len(matched) + len(unmatched), 1)
            boost = (hit["ref"] not in self._parents) + share
            hits.append((hit["score"] * (1 + boost**2), hit["ref"]))
        hits.sort(key=lambda one: -one[0])
        return list(dict.fromkeys(self._parents.get(ref, ref.partition("#")[0]) for _, ref in hits))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> SiteSearch:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return SiteSearch(json.loads((folder / "search/search_index.json").read_text()))


def _answers(pages: Sequence[str], wanted: str) -> bool:
    return any(page.startswith(tuple(wanted.split())) for page in pages[:FIRST])


def test_a_hundred_questions_are_asked() -> None:
    assert len(QUESTIONS) >= 100


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_finds_its_page(question: str, site: SiteSearch) -> None:
    found = site.pages(question)

    assert _answers(found, QUESTIONS[question]), found[:8]


def test_decisions_and_changes_are_not_searched(site: SiteSearch) -> None:
    found = site.pages("decision") + site.pages("changelog") + site.pages("contributing")

    assert not [
        page for page in found if page.startswith(("decisions/0", "changelog", "contributing"))
    ]
