"""``trailgate report``: write an overview of a trail as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from trailgate.errors import MissingDependencyError, StorageError, Where, count_noun
from trailgate.options import Flag
from trailgate.terminal.flags import DefinitionsFile, TrailPath, takes
from trailgate.terminal.output import report_finished, say


@takes
def command(
    path: TrailPath,
    *,
    to: Annotated[Path, Flag("FILE"), "The HTML file to write, such as ot.html."],
    definitions: DefinitionsFile = None,
) -> None:
    """Write an overview of a trail, including its damage, as one HTML file."""
    from trailgate.storage.files.durable import replace_whole_file

    try:
        from trailgate.browse.index import TrailIndex
        from trailgate.browse.overview import render_report
    except ModuleNotFoundError as error:
        problem = f"report needs the package {error.name}"
        raise MissingDependencyError.of_extra(problem, "browse") from None
    if to.exists():
        raise StorageError(
            "the file exists already",
            where=Where(source=str(to)),
            hint="Name another one, or remove it",
        )
    with TrailIndex(path, definitions) as index:
        index.build()
        page = render_report(index)
    replace_whole_file(to, page.encode())
    with report_finished():
        say(
            f"{count_noun(index.operations, 'operation')} of {count_noun(len(index.tables), 'table')}: {to}"
        )
