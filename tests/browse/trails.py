"""Trails to be looked at in a browser: a plain one, one whose texts are hostile, and that of a shop."""

from __future__ import annotations

import contextlib
import io
import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from sample_trail import NOTES, Op, write_trail
from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run

PRODUCTS: Final = (
    "ROWING BOAT",
    "SEAT, LEATHER",
    "PROPELLER, THREE BLADES",
    "OAR",
    "ANCHOR, 5 KG",
    "LIFE JACKET",
)
Order = tuple[str, str, str, str, str]  # customer, product, quantity, price and time
NO_ORDER: Final[Order] = ("NULL", "NULL", "NULL", "NULL", "NULL")
CUSTOMERS: Final = ("WILL", "JANE", "DAVE", "BILL", "ANN")
HOSTILE = "<script>alert('x')</script>\"'&\x00\u202e"


def plain_trail(folder: Path) -> str:
    """Write a trail of two files and return its prefix."""
    first = [[Op("I", 1, "one"), Op("I", 2, "")], [Op("U", 1, None, "one"), Op("D", 2)]]
    second = [[Op("I", 7, "note", table=NOTES)], [Op("U", 1, "three"), Op("U", 3, "b", "a")]]
    return str(write_trail(folder / "aa", [first, second]))


def hostile_trail(folder: Path) -> str:
    """Write a trail whose texts are markup, and return its prefix."""
    return str(write_trail(folder / "hh", [[[Op("I", 1, HOSTILE), Op("U", 1, "x", HOSTILE)]]]))


def timed_trail(folder: Path) -> str:
    """Write a trail of an operation a second, ten in all, and return its prefix."""
    return str(write_trail(folder / "tt", [[[Op("I", n, str(n))] for n in range(10)]]))


def shop_trail(folder: Path) -> str:
    """Capture four days of a shop in a folder, and return the trail's prefix there; one message is bad."""
    unpack(folder)
    for number, lines in enumerate(_shop_days(), 7):
        (folder / f"messages/{number:04}.txt").write_text("".join(f"{one}\n" for one in lines))
    (folder / "messages/9999.txt").write_text("X,GG.SHOP_ORDERS,2026-01-09 08:00:00,T-9999\n")
    words = "capture --properties dirprm/shop.properties --from messages --to dirdat/ot --update-befores"
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        assert run([*words.split(), "--on-error", "quarantine"]) == 0
    return "dirdat/ot"


def _shop_days() -> list[list[str]]:
    """Return messages of orders, the same each time: many by day and few by night."""
    draw, now = random.Random(7), datetime(2026, 1, 7, 12, tzinfo=UTC)
    orders: dict[int, Order] = {}
    messages = []
    for number in range(7, 700):
        busy = 1.2 - math.cos((now.hour + now.minute / 60) * math.pi / 12)
        now += timedelta(seconds=draw.randint(60, 600) / busy)
        lines: list[str] = []
        for _ in range(90 if number == 400 else draw.choice((1, 1, 1, 2, 3, 8))):
            kind = draw.choice("IIIUUD") if orders else "I"
            key = 100 * number + len(lines) if kind == "I" else draw.choice([*orders])
            before, after = orders.pop(key, NO_ORDER), NO_ORDER
            if kind != "D":
                quantity, price = str(draw.randint(1, 9)), f"{draw.randint(900, 99_000) / 100:.2f}"
                own = (
                    draw.choice(CUSTOMERS),
                    f'"{draw.choice(PRODUCTS)}"',
                    f"{now:%Y-%m-%d %H:%M:%S}",
                )
                name, product, at = own if kind == "I" else (*before[:2], before[4])
                after = orders[key] = (name, product, quantity, price, at)
            keys = ("NULL" if kind == "I" else str(key), "NULL" if kind == "D" else str(key))
            values = [text for pair in (keys, *zip(before, after, strict=True)) for text in pair]
            head = (kind, "GG.SHOP_ORDERS", f"{now:%Y-%m-%d %H:%M:%S}", f"T-{number:04}")
            lines.append(",".join((*head, *values)))
        messages.append(lines)
    return messages
