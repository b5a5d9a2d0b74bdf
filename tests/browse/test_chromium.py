"""The pages in a real Chromium: their layout, their scripts, their names for a screen reader, and hostile texts. They need Debian's chromium, and are skipped without it."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from browse.trails import hostile_trail, plain_trail, shop_trail, timed_trail
from sample_trail import Op, write_trail
from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run

playwright = pytest.importorskip(
    "playwright.sync_api", reason="needs playwright: the group browser"
)
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs the group browser")
CHROMIUM: Final = shutil.which("chromium")
pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: apt install chromium"),
    pytest.mark.xdist_group("chromium"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
FLAGS: Final = ("--disable-background-networking", "--disable-component-update", "--disable-sync")
PAGES: Final = (
    "",
    "operations",
    "operations?kinds=U",
    "transaction?at=0:583",
    "bytes?at=0:583",
    "bytes?at=0:0",
    "table?name=MY.ORDERS",
    "sql?sql=SELECT+*+FROM+operations",
    "quarantine",
    "row?table=MY.ORDERS&key=1",
    "operations?text=one&table=MY.*",
)


def _load_message(page: Any) -> None:
    page.locator("#chosen").select_option("0004-moved.txt")
    page.get_by_role("button", name="Load it").click()


def _open_bytes(page: Any) -> None:
    page.locator("table.ops tbody a").first.click()
    page.locator("a.leaf").nth(6).hover()
    page.evaluate("scrollTo(0, 0)")


# Of the docs: a picture's name, its page, the window, and what is done before the picture is taken.
PICTURES: Final[tuple[tuple[str, str, tuple[int, int], Callable[[Any], None]], ...]] = (
    ("browse-overview", "", (1280, 720), lambda _: None),
    ("browse-operations", "operations?table=GG.SHOP_ORDERS", (1280, 720), lambda _: None),
    ("browse-bytes", "operations?table=GG.SHOP_ORDERS&kinds=U", (1280, 720), _open_bytes),
    ("browse-workbench", "workbench", (1280, 900), _load_message),
    ("browse-narrow", "operations?table=GG.SHOP_ORDERS&kinds=U", (400, 720), lambda _: None),
)
QUALITY: Final = 60  # of a picture, of 100: a third of what PNG takes
BAD: Final = {"body": "X,<b>one</b>", "reason": "unknown optype value 'X' (1.txt, record 1)"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *FLAGS])
        yield found
        found.close()


@contextlib.contextmanager
def served(*arguments: str, folder: Path | None = None) -> Iterator[str]:
    """Serve pages from a folder and yield their address."""
    command = [sys.executable, "-m", "trailgate", "browse", *arguments, "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def trail(tmp_path_factory: pytest.TempPathFactory) -> str:
    prefix = plain_trail(tmp_path_factory.mktemp("chromium"))
    Path(f"{prefix}.quarantine.jsonl").write_text(json.dumps(BAD) + "\n")
    return prefix


@pytest.fixture(scope="module")
def address(trail: str) -> Iterator[str]:
    with served(trail) as found:
        yield found


@contextlib.contextmanager
def opened(
    browser: Any, url: str, width: int = 1280, height: int = 900, **options: Any
) -> Iterator[Any]:
    """Open a page; what its console or its scripts report is an error."""
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    page, problems = context.new_page(), list[str]()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda one: problems.append(one.text) if one.type == "error" else None)

    def refuse(dialog: Any) -> None:
        problems.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", refuse)
    page.goto(url, wait_until="load")
    try:
        yield page
        assert problems == []
    finally:
        context.close()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("shop")
    prefix = shop_trail(folder)
    names = ("--properties", "dirprm/shop.properties", "--messages", "messages")
    with served(prefix, *names, folder=folder) as found:
        yield found


def fits(page: Any, width: int) -> bool:
    """Return whether nothing of a page is beyond its window."""
    found: bool = page.evaluate("document.documentElement.scrollWidth") <= width
    return found


@pytest.mark.parametrize(("picture", "name", "window", "act"), PICTURES)
def test_a_page_of_a_shop_is_as_the_docs_show_it(
    browser: Any,
    shop: str,
    picture: str,
    name: str,
    window: tuple[int, int],
    act: Callable[[Any], None],
) -> None:
    """With TRAILGATE_PICTURES the pictures of the docs are made anew, in the folder that it names."""
    with opened(browser, shop, height=window[1]) as page:
        playwright.expect(page.locator("progress")).to_have_count(0, timeout=20_000)
    with opened(browser, shop + name, *window) as page:
        act(page)
        playwright.expect(page.locator("main")).to_contain_text("GG.SHOP_ORDERS", timeout=20_000)
        assert fits(page, window[0])
        if "TRAILGATE_PICTURES" in os.environ:
            file = Path(os.environ["TRAILGATE_PICTURES"], f"{picture}.webp")
            session = page.context.new_cdp_session(page)
            taken = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
            file.write_bytes(base64.b64decode(taken["data"]))


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1280, "light")])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_and_has_names_for_a_screen_reader(
    browser: Any, address: str, name: str, width: int, scheme: str
) -> None:
    with opened(browser, address + name, width, color_scheme=scheme) as page:
        assert fits(page, width)
        found = axe.Axe().run(page).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == []


A4: Final = 718  # pixels between the margins of a sheet


@pytest.mark.parametrize("name", ["", "operations", "table?name=GG.SHOP_ORDERS", "quarantine"])
def test_a_page_fits_on_a_sheet_of_paper(browser: Any, shop: str, name: str) -> None:
    with opened(browser, shop + name, A4) as page:
        page.emulate_media(media="print")
        wide = """(all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.outerHTML.slice(0, 99))"""
        assert page.locator(".wide").evaluate_all(wide) == []
        assert fits(page, A4)
        assert page.locator("header nav").is_hidden()


def test_pages_have_names_and_an_icon(browser: Any, address: str) -> None:
    titles = set()
    for name in PAGES:
        with opened(browser, address + name) as page:
            titles.add(page.title())
            icon = page.locator("link[rel=icon]").evaluate("one => one.href")
            assert page.request.get(icon).status == 200
    assert len(titles) == len(PAGES)


def test_few_stops_of_the_keyboard_are_before_the_tables(browser: Any, shop: str) -> None:
    """A chart of fifty bars is one stop."""
    with opened(browser, shop) as page:
        playwright.expect(page.locator("progress")).to_have_count(0, timeout=60_000)
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # to the content
        page.locator("a.bar").first.focus()
        for _ in range(12):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.closest('[aria-label=Tables]') !== null"):
                break
        else:
            pytest.fail("twelve stops do not lead to the tables")


def test_the_keyboard_alone_leads_from_the_overview_to_a_byte(browser: Any, address: str) -> None:
    with opened(browser, address) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        for _ in range(2):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_url("**/operations")
        page.locator("table.ops a").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/bytes?at=*")
        page.locator("a.leaf").nth(3).focus()
        assert page.locator(".dump .lit").count() == 2  # as hex and as text


def test_a_byte_lights_its_element_and_an_element_its_bytes(browser: Any, address: str) -> None:
    with opened(browser, f"{address}bytes?at=0:583") as page:
        page.locator(".dump [data-leaf='5']").first.hover()
        assert page.locator(".tree .lit").get_attribute("data-first") == "5"
        page.locator("summary[data-first='0']").hover()
        assert page.locator(".dump .lit").count() == page.locator(".dump [data-leaf]").count()


def test_markup_of_a_trail_runs_nowhere(browser: Any, tmp_path: Path) -> None:
    with served(hostile_trail(tmp_path)) as address:
        for name in PAGES[:8]:
            with opened(browser, address + name) as page:
                assert page.locator("script:not([src])").count() == 0


def test_damage_is_a_link_from_the_overview(browser: Any, tmp_path: Path) -> None:
    prefix = plain_trail(tmp_path)
    first = Path(f"{prefix}000000000")
    data = bytearray(first.read_bytes())
    data[690:700] = b"\xde\xad\xbe\xef" * 2 + b"!!"
    first.write_bytes(data)
    with served(prefix) as address, opened(browser, address) as page:
        page.get_by_role("region", name="Findings of the check").get_by_role("link").first.click()
        page.wait_for_url("**/bytes?at=*")
        assert "de ad be ef" in page.inner_text(".dump")


def test_dragging_over_bars_leads_to_the_operations_of_their_time(
    browser: Any, tmp_path: Path
) -> None:
    with (
        served(timed_trail(tmp_path)) as address,
        opened(browser, address, timezone_id="Asia/Kolkata") as page,
    ):
        bars = page.locator("figure[data-brush] a.bar")
        playwright.expect(bars).to_have_count(10, timeout=20_000)
        boxes = [bars.nth(at).locator(".slot").bounding_box() for at in (2, 4)]
        y = boxes[0]["y"] + 5  # above the bars themselves
        page.mouse.move(boxes[0]["x"] + 3, y)
        page.mouse.down()
        page.mouse.move(boxes[1]["x"] + 3, y, steps=5)
        assert page.locator("figure[data-brush] output").inner_text() == (
            "2026-01-01 00:00:02 to 2026-01-01 00:00:05: 3 operations; "
            "2026-01-01 05:30:02 GMT+5:30 to 2026-01-01 05:30:05 GMT+5:30 (local time)"
        )
        page.mouse.up()
        page.wait_for_url("**/operations?*")
        assert page.locator("table.ops tbody tr").count() == 3


def gap_trail(folder: Path) -> str:
    """Write operations of three seconds, and of a second half a minute later, and return the trail's prefix."""
    seconds = (0, 1, 2, 33)
    times = [datetime(2026, 1, 1, 0, 0, one, tzinfo=UTC) for one in seconds]
    rows = [[Op("I", number, time=at)] for number, at in enumerate(times)]
    return str(write_trail(folder / "gg", [rows]))


FIRST_LOCAL: Final = "2026-01-01 05:30:00 GMT+5:30"
GAP_LOCAL: Final = "2026-01-01 05:30:03 GMT+5:30 to 2026-01-01 05:30:33 GMT+5:30 (local time)"
# What is pointed at, and the local time that its title then has.
POINTED: Final[Mapping[str, str]] = {
    "a.bar": f"{FIRST_LOCAL} to 2026-01-01 05:30:01 GMT+5:30 (local time)",
    "g.gap": GAP_LOCAL,
    ".ticks text": f"{FIRST_LOCAL} (local time)",
    ".axis time": f"{FIRST_LOCAL} (local time)",
    "table.ops time": f"{FIRST_LOCAL} (local time)",
    ".chips time": f"{FIRST_LOCAL} (local time)",
}


@pytest.mark.parametrize("selector", POINTED)
def test_the_title_of_a_time_is_its_local_time(browser: Any, tmp_path: Path, selector: str) -> None:
    with (
        served(gap_trail(tmp_path)) as address,
        opened(
            browser, f"{address}operations?from_time=2026-01-01", timezone_id="Asia/Kolkata"
        ) as page,
    ):
        shown = page.locator(selector).first
        shown.hover()
        title = shown.evaluate("one => one.querySelector('title')?.textContent ?? one.title")
        assert title.split("\n")[-1] == POINTED[selector]


AFTER: Final = "one => getComputedStyle(one, '::after').content"


def test_the_keyboard_alone_shows_local_times(browser: Any, tmp_path: Path) -> None:
    with (
        served(gap_trail(tmp_path)) as address,
        opened(browser, f"{address}operations", timezone_id="Asia/Kolkata") as page,
    ):
        page.locator("a.bar").nth(2).focus()
        note = page.locator("figure[data-brush] output")
        assert note.inner_text() == (
            "2026-01-01 00:00:02 to 2026-01-01 00:00:03: 1 operation, 1 insert; "
            "2026-01-01 05:30:02 GMT+5:30 to 2026-01-01 05:30:03 GMT+5:30 (local time)"
        )
        page.keyboard.press("ArrowRight")
        assert note.inner_text() == (
            f"2026-01-01 00:00:03 to 2026-01-01 00:00:33: no operations; {GAP_LOCAL}"
        )
        page.keyboard.press("ArrowRight")
        assert note.inner_text().startswith("2026-01-01 00:00:33 to")
        page.keyboard.press("Shift+Tab")
        assert note.inner_text() == ""

        times = page.locator("table.ops time")
        assert times.first.evaluate(AFTER) == "none"
        page.locator("table.ops a").first.focus()
        page.keyboard.press("Tab")
        page.keyboard.press("Shift+Tab")
        assert times.first.evaluate(AFTER) == f'"{FIRST_LOCAL} (local time)"'
        assert times.nth(1).evaluate(AFTER) == "none"


def test_each_time_without_a_link_beside_it_is_a_stop_of_the_keyboard(
    browser: Any, tmp_path: Path
) -> None:
    with (
        served(gap_trail(tmp_path)) as address,
        opened(browser, f"{address}transaction?at=0:583", timezone_id="Asia/Kolkata") as page,
    ):
        times = page.locator("time")
        times.first.press("Shift")
        assert times.first.evaluate(AFTER) == f'"{FIRST_LOCAL} (local time)"'
        reached = "one => one.tabIndex === 0 || one.closest('tr, li')?.querySelector('a') != null"
        assert all(one.evaluate(reached) for one in times.all())


def test_a_click_on_a_bar_leads_to_its_own_time(browser: Any, tmp_path: Path) -> None:
    with served(timed_trail(tmp_path)) as address, opened(browser, address) as page:
        bars = page.locator("figure[data-brush] a.bar")
        playwright.expect(bars).to_have_count(10, timeout=20_000)
        bars.nth(3).locator("rect").last.click()
        page.wait_for_url("**/operations?*")
        assert page.locator("table.ops tbody tr").count() == 1


def test_a_span_of_time_is_chosen_by_keys(browser: Any, tmp_path: Path) -> None:
    with served(timed_trail(tmp_path)) as address, opened(browser, address) as page:
        bars = page.locator("figure[data-brush] a.bar")
        playwright.expect(bars).to_have_count(10, timeout=20_000)
        bars.nth(3).focus()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('figure')") is None
        page.keyboard.press("Shift+Tab")
        assert page.evaluate("document.activeElement.closest('figure')") is not None
        for key in ("Shift+ArrowRight", "Shift+ArrowRight", "Escape"):
            page.keyboard.press(key)
        assert page.locator("figure[data-brush] output").inner_text() == ""
        for key in ("Shift+ArrowLeft", "Shift+ArrowLeft", "Shift+ArrowLeft", "Enter"):
            page.keyboard.press(key)
        page.wait_for_url("**/operations?*")
        assert page.locator("table.ops tbody tr").count() == 4


def test_a_finger_chooses_a_span_of_time(browser: Any, tmp_path: Path) -> None:
    with (
        served(timed_trail(tmp_path)) as address,
        opened(browser, address, 400, has_touch=True, is_mobile=True) as page,
    ):
        bars = page.locator("figure[data-brush] a.bar")
        playwright.expect(bars).to_have_count(10, timeout=20_000)
        boxes = [bars.nth(at).locator(".slot").bounding_box() for at in (0, 1)]
        session = page.context.new_cdp_session(page)
        for kind, box in (("touchStart", boxes[0]), ("touchMove", boxes[1]), ("touchEnd", None)):
            points = [] if box is None else [{"x": box["x"] + 5, "y": box["y"] + 50}]
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        page.wait_for_url("**/operations?*")
        assert page.locator("table.ops tbody tr").count() == 2


def test_bars_lead_to_their_time_without_scripts(browser: Any, tmp_path: Path) -> None:
    prefix = timed_trail(tmp_path)
    with (
        served(prefix) as address,
        opened(browser, f"{address}table?name=MY.ORDERS", java_script_enabled=False) as page,
    ):
        page.locator("a.bar").nth(3).focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/operations?*")
        assert page.locator("table.ops tbody tr").count() == 1


def test_create_table_is_chosen_by_database_and_copied(browser: Any, address: str) -> None:
    url = f"{address}table?name=MY.ORDERS"
    with opened(browser, url, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.get_by_label("PostgreSQL", exact=True).focus()
        page.keyboard.press("ArrowRight")
        page.get_by_role("button", name="Copy").click()
        page.get_by_text("Copied").wait_for()
        text = page.evaluate("navigator.clipboard.readText()")
        assert text.startswith('CREATE TABLE "my"."orders" (')
        assert '"name" VARCHAR' in text


def test_operations_that_are_added_appear(browser: Any, tmp_path: Path) -> None:
    prefix = plain_trail(tmp_path)
    with served(prefix) as address, opened(browser, address) as page:
        playwright.expect(page.locator("progress")).to_have_count(0, timeout=60_000)
        page.goto(f"{address}operations")
        playwright.expect(page.locator("table.ops tbody tr")).to_have_count(7)
        page.locator("a[rel=next]").scroll_into_view_if_needed()
        other = write_trail(tmp_path / "bb", [[[Op("I", 99, "added")]]])
        Path(f"{other}000000000").rename(f"{prefix}000000002")
        playwright.expect(page.locator("table.ops tbody tr")).to_have_count(8, timeout=60_000)
        assert "added" in page.locator("table.ops tbody tr").last.inner_text()
        playwright.expect(page.locator("#matches strong")).to_have_text("8 operations")


def test_matches_of_a_large_trail_are_counted_on_the_page(browser: Any, tmp_path: Path) -> None:
    long = "x" * 4000
    files = [[[Op("I", 1000 * file + row, long)] for row in range(1000)] for file in range(4)]
    prefix = str(write_trail(tmp_path / "aa", files))
    with served(prefix) as address, opened(browser, f"{address}operations?text=X") as page:
        playwright.expect(page.locator("#matches strong")).to_have_text(
            "4,000 operations match", timeout=60_000
        )
        playwright.expect(page.locator("#matches progress")).to_have_count(0, timeout=60_000)


def test_a_search_that_finds_nothing_says_so_in_place(browser: Any, tmp_path: Path) -> None:
    files = [[[Op("I", file, "x" * 4000)]] for file in range(3)]
    prefix = str(write_trail(tmp_path / "aa", files))
    with served(prefix) as address, opened(browser, f"{address}operations?text=nowhere") as page:
        playwright.expect(page.locator("#searched")).to_have_text("All searched.", timeout=60_000)
        assert page.url.endswith("text=nowhere")


def test_rows_come_as_the_table_is_scrolled(browser: Any, tmp_path: Path) -> None:
    prefix = str(write_trail(tmp_path / "aa", [[[Op("I", n, str(n))] for n in range(250)]]))
    with served(prefix) as address, opened(browser, f"{address}operations") as page:
        rows = page.locator("table.ops tbody tr")
        for _ in range(600):
            page.mouse.wheel(0, 20_000)
            page.wait_for_timeout(100)
            if rows.count() == 250:
                break
        assert rows.count() == 250


def test_back_leads_to_the_rows_that_were_there(browser: Any, tmp_path: Path) -> None:
    prefix = str(write_trail(tmp_path / "aa", [[[Op("I", n, str(n))] for n in range(350)]]))
    with served(prefix) as address, opened(browser, f"{address}operations") as page:
        rows = page.locator("table.ops tbody tr")
        for count in range(100, 301, 50):
            page.locator("a[rel=next]").scroll_into_view_if_needed()
            playwright.expect(rows.nth(count - 1)).to_be_attached(timeout=60_000)
        link = rows.nth(280).locator("a").first
        link.scroll_into_view_if_needed()
        link.click()
        page.wait_for_url("**/bytes?at=*")
        page.go_back()
        playwright.expect(rows.nth(299)).to_be_attached(timeout=60_000)
        playwright.expect(rows.nth(280)).to_be_in_viewport(timeout=60_000)


def test_an_overview_states_that_the_server_has_ended(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context()
    page = context.new_page()  # the console reports the request without an answer
    with served(plain_trail(tmp_path)) as address:
        page.goto(address)
    ended = page.get_by_role("alert").filter(has_text="trailgate browse has ended")
    playwright.expect(ended).to_be_visible(timeout=60_000)
    context.close()


ENDLESS: Final = "SELECT sum(hash(range) % 7) FROM range(300000000000)"


@pytest.mark.parametrize("scripts", [True, False])
def test_a_statement_is_canceled_from_another_page(
    browser: Any, address: str, *, scripts: bool
) -> None:
    answers: list[str] = []

    def ask() -> None:
        with urlopen(f"{address}sql?sql={quote(ENDLESS)}") as answer:
            answers.append(answer.read().decode())

    asking = Thread(target=ask)
    asking.start()
    with opened(browser, f"{address}sql", java_script_enabled=scripts) as page:
        for _ in range(20):
            if page.get_by_text("A statement is running").count():
                break
            page.reload()
        page.locator("#sql").fill("SELECT 42")
        page.get_by_role("button", name="Cancel").click()
        asking.join(20)

        assert "the statement was canceled" in answers[0]
        assert page.locator("#sql").input_value() == "SELECT 42"
        assert page.get_by_role("button", name="Cancel").is_hidden()


# Playwright itself waits for the answer of a page that is asked for, so the page clicks.
RUN_AND_CANCEL: Final = """(milliseconds) => {
  document.querySelector("form.sql button").click();
  setTimeout(() => document.querySelector("[data-cancel]").click(), milliseconds);
}"""


@pytest.mark.parametrize("milliseconds", [0, 300])
def test_a_statement_is_canceled_from_its_own_page(
    browser: Any, address: str, milliseconds: int
) -> None:
    """Even at once, before the server has begun it."""
    with opened(browser, f"{address}sql") as page:
        assert page.get_by_role("button", name="Cancel").is_hidden()
        page.locator("#sql").fill(ENDLESS)
        page.evaluate(RUN_AND_CANCEL, milliseconds)

        canceled = page.get_by_text("The statement was canceled")
        playwright.expect(canceled).to_be_visible(timeout=60_000)
        assert page.locator("#sql").input_value() == ENDLESS
        assert page.get_by_role("button", name="Cancel").is_hidden()
        page.locator("#sql").fill("SELECT 42")
        page.get_by_role("button", name="Run").click()
        playwright.expect(page.locator("table.answer")).to_contain_text("42", timeout=60_000)


def test_a_repaired_message_is_downloaded(browser: Any, address: str) -> None:
    with opened(browser, f"{address}quarantine") as page:
        page.get_by_text("Repair it").click()
        page.locator("textarea").fill("I,two")
        with page.expect_download() as download:
            page.locator("#download").click()
        line = json.loads(Path(download.value.path()).read_text())
        assert line == {"body": "I,two"}


HIGHEST: Final = """(bars) => bars.indexOf(bars.toSorted((one, two) => two.dataset.count - one.dataset.count)[0])"""


def _click_highest_bar(page: Any) -> None:
    bars = page.locator("figure[data-brush] a.bar")
    bars.nth(bars.evaluate_all(HIGHEST)).locator("rect").last.click()


def click(text: str) -> Callable[[Any], None]:
    """Return a click on the first link or button with a text."""

    def act(page: Any) -> None:
        page.locator("a, button, summary").filter(has_text=text).first.click()

    return act


def enter(label: str, text: str) -> Callable[[Any], None]:
    """Return typing into a field, and Enter."""

    def act(page: Any) -> None:
        page.get_by_label(label).fill(text)
        page.get_by_label(label).press("Enter")

    return act


# Questions with which somebody opens the overview, what they do, and what then is on the page. Their
# numbers of actions are those of docs/howto/browse.md.
QUESTIONS: Final = re.compile(r"^\| ([A-Z][^|]+\?) \| (\d+) \|", re.MULTILINE)
LONGEST: Final = "Which transaction took longest?"
TASKS: Final[Mapping[str, tuple[tuple[Callable[[Any], None], ...], str]]] = {
    "Where is the damage?": ((), "The trail is whole"),
    "Which table was changed most?": ((), "GG.SHOP_ORDERS1,894"),
    "What caused the spike?": ((_click_highest_bar,), "T-0400"),
    "When was nothing written?": ((), "longest time without operations: about 21 h"),
    "What did the biggest transaction do?": ((click("90 operations"),), "Transaction T-0400"),
    "What do properties make of a transaction?": (
        (click("90 operations"), click("Open in the workbench")),
        "90 operations of 1 table",
    ),
    "What do properties make of an operation?": (
        (click("Operations"), lambda page: page.locator("button.bench").first.click()),
        "1 operation of 1 table",
    ),
    "What happened to the row 1003?": (
        (click("Operations"), enter("Value has the text", "1003"), click("\N{BLACK DIAMOND}")),
        "History of a row",
    ),
    "Which operations lack a price?": (
        (
            click("Operations"),
            click("More filters"),
            lambda page: page.get_by_label("Its value").select_option("missing"),
            enter("Column", "PRICE"),
        ),
        "value of PRICE is not logged",
    ),
    "Which rows of a table were deleted?": (
        (click("GG.SHOP_ORDERS"), lambda page: page.locator(".figures a").last.click()),
        "299 operations match",
    ),
    "How many changes were there in each hour?": (
        (click("SQL"), click("Changes per hour")),
        "2026-01-05T09:00:00",
    ),
    "What is wrong with a message?": (
        (click("Quarantine"),),
        "unknown optype value 'X'",
    ),
    "What would repair it?": (
        (click("Quarantine"), click("Open in the workbench")),
        "a capture refuses this message",
    ),
    "Which bytes have a value?": (
        (click("Operations"), lambda page: page.locator("table.ops tbody a").first.click()),
        "not null, 4 bytes: WILL",
    ),
}


@pytest.mark.parametrize("task", TASKS)
def test_a_question_is_answered_by_a_few_actions(browser: Any, shop: str, task: str) -> None:
    actions, answer = TASKS[task]
    with opened(browser, shop) as page:
        playwright.expect(page.locator("progress")).to_have_count(0, timeout=60_000)
        for act in actions:
            act(page)
        playwright.expect(page.locator("main")).to_contain_text(answer, timeout=60_000)


def test_the_docs_state_the_numbers_of_actions() -> None:
    page = (Path(__file__).parents[2] / "docs/howto/browse.md").read_text()
    stated = {question: int(number) for question, number in QUESTIONS.findall(page)}

    assert stated == {task: len(actions) for task, (actions, _) in TASKS.items()} | {LONGEST: 1}


def test_the_longest_transaction_is_a_click_away(browser: Any, tmp_path: Path) -> None:
    prefix = write_trail(tmp_path / "aa", [[[Op("I", number) for number in range(10)]]])
    with served(str(prefix)) as address, opened(browser, address) as page:
        playwright.expect(page.locator("progress")).to_have_count(0, timeout=60_000)
        page.get_by_role("link", name="10 operations in 9 s").last.click()
        page.wait_for_url("**/transaction?at=*")
        playwright.expect(page.locator("main")).to_contain_text("duration")


def test_messages_are_marked_when_they_are_repaired_and_when_they_are_captured(
    browser: Any, tmp_path: Path
) -> None:
    unpack(tmp_path)
    bad = "X,GG.JMSCAP_TCUSTMER,2026-01-07 12:00:00,T-0099,NULL,TOM,NULL,OARS,NULL,OSLO,NULL,NO"
    (tmp_path / "messages/0099.txt").write_text(f"{bad}\n")
    capture = ["capture", "--properties", "dirprm/shop.properties", "--to", "dirdat/ot", "--from"]
    with contextlib.chdir(tmp_path):
        assert run([*capture, "messages", "--on-error", "quarantine"]) == 0
    with (
        served("dirdat/ot", folder=tmp_path) as address,
        opened(browser, f"{address}quarantine") as page,
    ):
        state = page.locator(".state")
        page.get_by_text("Repair it").click()
        page.locator("textarea").fill(f"I{bad[1:]}\n")
        playwright.expect(state).to_have_text("repaired")
        with page.expect_download() as download:
            page.locator("#download").click()
        download.value.save_as(tmp_path / "repaired.jsonl")
        page.reload()
        playwright.expect(state).to_have_text("repaired")
        playwright.expect(page.locator("textarea")).to_have_value(f"I{bad[1:]}\n")

        with contextlib.chdir(tmp_path):
            assert run([*capture, "repaired.jsonl"]) == 0
        page.reload()
        playwright.expect(state).to_have_text("captured")


def test_texts_of_the_workbench_are_there_after_another_page(browser: Any, tmp_path: Path) -> None:
    prefix = plain_trail(tmp_path)
    line = {"body": "X;GG.ORDERS;one", "headers": {"A": "b"}, "reason": "no date (1.txt, record 1)"}
    Path(f"{prefix}.quarantine.jsonl").write_text(json.dumps(line) + "\n")
    properties = tmp_path / "own.properties"
    properties.write_text("parser.type=delim\n")
    arguments = (prefix, "--properties", str(properties))
    with served(*arguments) as address, opened(browser, f"{address}workbench") as page:
        page.locator("#message").fill("I;GG.ORDERS;2026-01-05 09:00:00;1;boat")
        playwright.expect(page.locator("#result")).not_to_have_attribute("aria-busy", "true")
        page.goto(f"{address}quarantine")
        page.goto(f"{address}workbench")
        playwright.expect(page.locator("#message")).to_have_value(re.compile("1;boat"))
        page.get_by_role("button", name="Discard them").click()
        playwright.expect(page.locator("#message")).not_to_have_value(re.compile("1;boat"))

        page.goto(f"{address}quarantine")
        page.get_by_role("button", name="Open in the workbench").click()
        playwright.expect(page.locator("#message")).to_have_value("X;GG.ORDERS;one")
        playwright.expect(page.locator("#headers")).to_have_value("A=b")


def test_the_workbench_leads_from_a_message_to_a_capture(browser: Any, tmp_path: Path) -> None:
    messages, kept = tmp_path / "messages", tmp_path / "dirprm"
    messages.mkdir()
    kept.mkdir()
    (messages / "1.txt").write_text("I;GG.ORDERS;2026-01-05 09:00:00;1;boat\n")
    arguments = ("--messages", str(messages), "--save-to", str(kept))
    with served(*arguments) as address, opened(browser, f"{address}workbench") as page:
        page.get_by_role("button", name="Propose properties").click()
        playwright.expect(page.locator("#result")).to_contain_text("GG.ORDERS", timeout=20_000)
        page.locator("#save_name").fill("orders.properties")
        page.get_by_role("button", name="Save").click()
        page.get_by_text("Saved as").wait_for()
        assert fits(page, 1280)
    properties, target = str(kept / "orders.properties"), str(tmp_path / "dirdat/ot")
    options = ["--properties", properties, "--from", str(messages), "--to", target]
    assert run(["capture", *options]) == 0
