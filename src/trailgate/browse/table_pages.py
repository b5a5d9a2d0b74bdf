"""The page of a table: its counts, its definitions, and its latest rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trailgate.browse.charts import time_chart
from trailgate.browse.filters import OperationFilters, exact_table_filter
from trailgate.browse.index import KINDS, TrailIndex
from trailgate.browse.operation_search import OperationSearch
from trailgate.browse.pages import KIND_NAMES, Query, link_to, place_text
from trailgate.errors import OptionError, TrailgateError
from trailgate.model.table_names import TablePatterns
from trailgate.model.tables import Table
from trailgate.storage.files.trail_files import TrailPosition

LATEST: Final = 20  # operations shown
COLUMNS: Final = 2000  # the most columns shown, of all definitions together


def table_page(index: TrailIndex, query: Query) -> dict[str, Any]:
    """Return the template values for the page of a table of the trail.

    Raises OptionError if the trail has no such table.
    """
    name = query.get("name", "")
    with index.lock:
        totals = index.tables.get(name)
        end = index.spans[-1].stop if index.spans else None
        if totals is None:
            raise OptionError(f"the trail has no table {name!r}", hint="The overview lists them")
        kinds = totals.kinds.tolist()
        versions: list[tuple[TrailPosition | None, Table]] = list(totals.versions)
        chart = time_chart(
            totals.over_time, "Operations over time", link_to, table=exact_table_filter(name)
        )
    if not versions and index.found.definitions is not None:
        versions = [(None, one) for one in index.definitions if one.name == name]
    listed: list[tuple[TrailPosition | None, Table]] = []
    columns = 0
    # The newest versions, as many as have ``COLUMNS`` columns together, but at least one.
    for place, definition in reversed(versions):
        columns += len(definition.columns)
        if listed and columns > COLUMNS:
            break
        listed.append((place, definition))
    latest = OperationSearch(
        index, OperationFilters(tables=TablePatterns.exactly(name)), end, back=True, rows=LATEST
    ).run()
    return {
        "name": name,
        "totals": totals,
        "counts": [
            (
                KIND_NAMES[kind],
                number,
                link_to("operations", table=exact_table_filter(name), kinds=kind),
            )
            for kind, number in zip(KINDS, kinds, strict=True)
            if number
        ],
        "over_time": chart,
        "versions": [
            (
                place and place_text(place),
                definition,
                place and link_to("bytes", at=place_text(place)),
            )
            for place, definition in listed
        ],
        "more_versions": len(versions) - len(listed),
        "creations": list(_creations(versions[-1][1])) if versions else [],
        "rows": latest.rows[::-1],
        "all_rows": link_to("operations", table=exact_table_filter(name)),
    }


def _creations(definition: Table) -> Iterator[tuple[str, str, str, str]]:
    """Yield CREATE TABLE for each database: its key and title, and the statement or the reason why there is none."""
    # No other page needs these.
    from trailgate.apply.effects.tables import make_target_table  # noqa: PLC0415
    from trailgate.apply.targets.ddl import DATABASES  # noqa: PLC0415

    for key, database in DATABASES.items():
        statement = problem = ""
        try:
            made = make_target_table(definition)
            statement = f"{database.create_statement(made, made.name)};"
        except TrailgateError as error:
            problem = str(error)
        yield key, database.title, statement, problem
