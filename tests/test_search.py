"""The documentation's search finds a page for what users ask, in their words.

The site's search is lunr: sections are indexed as MkDocs does it, titles before text. A question is answered where one of its pages is among the first five.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

lunr = pytest.importorskip("lunr")

DOCS: Final = Path(__file__).parents[1] / "docs"
FIRST: Final = 5
QUESTIONS: Final = {
    "tutorial": "tutorials/",
    "quickstart": "install.md tutorials/",
    "first capture from a file": "tutorials/",
    "what is a trail file": "tutorials/what-is-a-trail.md",
    "install debian externally managed": "install.md howto/troubleshooting.md",
    "pandas": "howto/read-in-python.md",
    "polars dataframe": "howto/read-in-python.md",
    "duckdb sql query": "howto/read-in-python.md cli.md",
    "databricks": "howto/read-on-spark.md",
    "spark structured streaming trail": "spark.md howto/read-on-spark.md",
    "read goldengate trail in python": "howto/read-in-python.md",
    "replace logdump": "howto/from-logdump.md logdump.md",
    "logdump filter": "logdump.md howto/from-logdump.md",
    "migrate from oracle adapter": "howto/from-the-adapter.md",
    "ibm mq": "howto/ibm-mq.md",
    "activemq artemis": "howto/artemis.md brokers.md",
    "rabbitmq virtual host": "howto/rabbitmq.md",
    "kafka sasl scram": "howto/kafka.md",
    "kafka tls certificate": "howto/kafka.md",
    "avro schema registry": "howto/kafka.md",
    "debezium": "tutorials/json.md howto/debezium.md json.md",
    "goldengate json": "json.md tutorials/json.md",
    "event publishing q replication": "publications.md tutorials/publications.md",
    "copybook": "copybook.md tutorials/fixed-width.md",
    "ebcdic packed decimal": "copybook.md tutorials/fixed-width.md",
    "comp-3": "glossary.md copybook.md",
    "xml xpath rules": "xml.md tutorials/xml.md",
    "add a table": "howto/new-table.md",
    "new column": "howto/new-table.md",
    "resume after crash": "howto/after-a-crash.md",
    "exactly once": "guarantees.md",
    "delta lake tables": "howto/apply.md",
    "replicat apply changes to a database": "howto/apply.md",
    "handlecollisions": "howto/apply.md",
    "bad message quarantine": "howto/bad-messages.md",
    "error message troubleshoot": "howto/troubleshooting.md",
    "no trail files here": "howto/troubleshooting.md",
    "table is not in the definitions": "howto/troubleshooting.md howto/new-table.md",
    "glossary rba csn": "glossary.md",
    "s3 bucket": "stores.md",
    "prometheus metrics monitoring": "live.md",
    "striim cobrix comparison": "comparison.md",
    "docker container": "install.md",
    "parquet export": "howto/read-in-python.md cli.md",
    "share trail bug report anonymize redact": "howto/share-a-trail.md",
    "slow compile numba": "install.md howto/troubleshooting.md",
}


def sections() -> list[dict[str, Any]]:
    """Return the sections of all pages but decisions: the page, the title and the text of each."""
    found = []
    for path in sorted(DOCS.rglob("*.md")):
        name = path.relative_to(DOCS).as_posix()
        if name.startswith("decisions/"):
            continue
        parts = re.split(r"^(#{1,3} .*)$", path.read_text(), flags=re.MULTILINE)
        for at in range(1, len(parts), 2):
            title, text = parts[at].lstrip("# "), parts[at + 1]
            found.append({"ref": f"{name}#{at}", "title": title, "text": text})
    return found


@cache
def index() -> Any:
    return lunr.lunr(
        ref="ref", fields=({"field_name": "title", "boost": 1000}, "text"), documents=sections()
    )


def pages_of(question: str) -> list[str]:
    """Return the first pages that the search gives, each once."""
    hits = (hit["ref"].partition("#")[0] for hit in index().search(question))
    return list(dict.fromkeys(hits))[:FIRST]


def test_forty_questions_are_asked() -> None:
    assert len(QUESTIONS) >= 40


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_finds_its_page(question: str) -> None:
    found = pages_of(question)

    assert any(page.startswith(tuple(QUESTIONS[question].split())) for page in found), found
