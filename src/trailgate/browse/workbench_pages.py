"""The page of the workbench, and the answers to its form: the page, only its result, or a file to save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from trailgate.browse.pages import render
from trailgate.browse.workbench import (
    FORMS,
    POSTED,
    Sheet,
    Workbench,
    as_file,
    examine_sheet,
    propose_properties,
    sheet_of,
)
from trailgate.errors import TrailgateError, mask_logins

TOO_LARGE: Final = f"the workbench accepts at most {POSTED >> 20} MB"


@dataclass(frozen=True, slots=True)
class WorkbenchPage:
    """Answers HTTP requests to the workbench.

    ``around`` contains the template values that all pages have.
    """

    bench: Workbench
    around: Mapping[str, Any]

    def route(self, address: str) -> Route:
        """Return the HTTP route of the workbench page at an address."""
        return Route(address, self.show, methods=["GET", "HEAD", "POST"])

    async def show(self, request: Request) -> Response:
        """Return the page for the current files, or the answer to a submitted form."""
        if request.method != "POST":
            return await run_in_threadpool(lambda: self.page(self.bench.read(), answered=False))
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > POSTED:
                return Response(TOO_LARGE, 413, media_type="text/plain")
        return await run_in_threadpool(self.answer, bytes(body))

    def page(
        self, sheet: Sheet, problem: str = "", saved: str = "", *, answered: bool = True
    ) -> Response:
        """Render the complete workbench page.

        ``answered`` is true if it answers a button of the form.
        """
        outcome = {"page": "workbench", "problem": problem, "saved": saved, "answered": answered}
        values = {**self.around, **outcome, **_values(self.bench, sheet)}
        return HTMLResponse(render("workbench.html", values))

    def answer(self, body: bytes) -> Response:
        """Answer a submitted workbench form with the page, only its result, or the properties as a file."""
        sheet, given = sheet_of(body)
        asked = given.get("do", "")
        if given.get("part") == "result":
            return HTMLResponse(render("workbench_result.html", _values(self.bench, sheet)))
        if asked == "download":
            return _file(self.bench.name, sheet.properties)
        try:
            if asked != "save":
                return self.page(_apply_action(self.bench, sheet, asked))
            name, overwrite = given.get("save_name", ""), "overwrite" in given
            saved = self.bench.save(name, sheet.properties, overwrite=overwrite)
            return self.page(sheet, saved=saved)
        except TrailgateError as error:
            return self.page(sheet, str(error))


def _apply_action(bench: Workbench, sheet: Sheet, action: str) -> Sheet:
    """Carry out the action of a button of the workbench ("propose", "back" or "load"), and return the changed fields."""
    if action == "propose":
        return propose_properties(sheet)
    if action == "back":
        return replace(sheet, properties=sheet.earlier, earlier=sheet.properties)
    if action == "load":
        return bench.load(sheet, sheet.chosen)
    return sheet


def _values(bench: Workbench, sheet: Sheet) -> dict[str, Any]:
    """Examine the sheet, and return the template values for the workbench page and for its result."""
    return {
        "bench": bench,
        "sheet": sheet,
        "found": examine_sheet(bench, sheet),
        "forms": FORMS,
        "names": bench.names(),
        "properties_name": mask_logins(bench.properties or bench.name),
    }


def _file(name: str, text: str) -> Response:
    """Return the workbench's properties as a file to download."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
    headers = {"content-disposition": f'attachment; filename="{plain}"'}
    return Response(as_file(text), media_type="text/plain; charset=utf-8", headers=headers)
