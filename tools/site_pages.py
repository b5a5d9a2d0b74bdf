"""A hook of MkDocs: pages made from files of the repository's root, and what the site's search covers.

The repository links CONTRIBUTING.md and its neighbours by their paths; on the site they are pages beside those of ``docs``.

The search is for users. It skips pages for contributors (decisions, the changelog), ranks guides above reference pages, and finds a page by the words of
``KEYWORDS`` too: what people call a thing that the page names differently.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "LICENSE": "license.md",
}
UNSEARCHED = ("decisions/", "modules.md", *PAGES.values())
# The first prefix that fits a page gives its weight; the theme multiplies scores by it.
WEIGHTS = {
    "howto/": 3,
    "tutorials/what": 6,
    "tutorials/": 4,
    "index.md": 0.2,
    "api.md": 0.3,
    "architecture.md": 0.3,
    "assumptions.md": 0.3,
    "conformance.md": 0.1,
    "licenses.md": 0.1,
    "reference/": 0.2,
    "releasing.md": 0.1,
    "unknown-records.md": 0.3,
}
KEYWORDS = {
    "cli.md": "options flags command line",
    "comparison.md": "alternative competitor price license cost striim qlik cobrix benchmark performance",
    "copybook.md": "cobol redefines occurs depending comp-3 packed zoned ebcdic vb rdw variable length mainframe",
    "format.md": "goldengate support supported release level 12c 19c 21c 23 23ai encrypted byte order",
    "glossary.md": "meaning abbreviation rba scn",
    "guarantees.md": "exactly once duplicate delivered twice idempotent lost order ordering parallel concurrent two same time",
    "howto/after-a-crash.md": "resume restart killed recover corrupt damaged salvage start over again beginning replay reset redo",
    "howto/apply.md": "postgres postgresql delta lake duckdb upsert merge scd2 scd history soft delete replicate load lag metrics",
    "howto/artemis.md": "activemq jms stomp",
    "howto/bad-messages.md": "quarantine skip failed parse reject dead letter poison",
    "howto/browse.md": "browser view gui web ui",
    "howto/debezium.md": "debezium envelope events",
    "howto/delta.md": "lakehouse databricks delta-rs s3 azure abfss vacuum optimize",
    "howto/from-cobrix.md": "cobrix",
    "howto/from-logdump.md": "logdump count inspect dump",
    "howto/from-replicat.md": "prm parameter replicat map target insertallrecords handlecollisions",
    "howto/from-the-adapter.md": "oracle adapter vam migrate extract pump",
    "howto/ibm-mq.md": "mq websphere queue manager reader",
    "howto/iceberg.md": "pyiceberg catalog rest glue sqlite snapshot lakehouse",
    "howto/kafka.md": "kafka sasl scram tls ssl certificate avro schema registry confluent",
    "howto/new-table.md": "add table column definitions defgen alter",
    "howto/rabbitmq.md": "rabbitmq amqp virtual host",
    "howto/read-in-python.md": "pandas polars csv parquet export convert arrow python sql",
    "howto/read-on-spark.md": "databricks pyspark dataframe",
    "howto/run-every-day.md": "systemd service cron kubernetes airflow docker container windows macos purge delete schedule monitoring production operate",
    "howto/share-a-trail.md": "anonymize redact mask gdpr bug report",
    "howto/troubleshooting.md": "error message problem slow compile numba definitions",
    "install.md": "pip setup extras docker container windows debian python java jdk jre version requirements",
    "json.md": "goldengate json handler kafka connect",
    "live.md": "broker live capture metrics prometheus journal password login user credentials",
    "operations-table.md": "commit timestamp time timezone utc before after image columns op_ts csn",
    "properties.md": "options timestamp format code page encoding properties timezone null empty decimal quotes",
    "publications.md": "db2 ibm q replication event publisher",
    "scaling.md": "memory large cluster scale performance big",
    "spark.md": "streaming checkpoint structured options datasource",
    "stores.md": "s3 azure blob gcs google hdfs bucket abfs",
    "tutorials/delimited.md": "csv first capture file quickstart begin",
    "tutorials/fixed-width.md": "fixed width copybook cobol ebcdic first capture",
    "tutorials/json.md": "debezium goldengate json",
    "tutorials/what-is-a-trail.md": "trail file explained introduction goldengate begin",
    "tutorials/xml.md": "xpath xml rules",
    "versioning.md": "upgrade compatibility semver release version",
}
LINK = re.compile(r"\]\(([^)#\s]+)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages to the site's files."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text()
        if page == "license.md":
            text = f"# License\n\n```text\n{text}```\n"
        files.append(File.generated(config, page, content=LINK.sub(_from_root, text)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links of a page to files of the root lead to their pages, and set what the search does with it."""
    name = page.file.src_uri
    page.meta["search"] = {
        "exclude": name.startswith(UNSEARCHED),
        "boost": next((weight for start, weight in WEIGHTS.items() if name.startswith(start)), 1),
    }
    page.meta["tags"] = KEYWORDS.get(name, "").split()
    up = "../" * name.count("/")
    return LINK.sub(lambda found: _from_page(found, up), markdown)


def _from_root(found: re.Match[str]) -> str:
    target = found.group(1)
    return f"]({PAGES.get(target, target.removeprefix('docs/'))}"


def _from_page(found: re.Match[str], up: str) -> str:
    target = found.group(1)
    page = PAGES.get(target.removeprefix(f"{up}../"), "") if target.startswith("../") else ""
    return f"]({up}{page}" if page else found.group(0)
