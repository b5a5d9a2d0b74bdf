"""Write a trail that others read while it grows, and continue it after an interruption."""

from collections.abc import Iterator

import trailgate

CAPTURE = trailgate.load_capture("shop.properties")
MESSAGES = [
    f"I,SHOP.ORDERS,2026-01-05 09:00:0{number},T-{number},{number},item {number}\n"
    for number in range(6)
]


def batches(position: str | None) -> Iterator[tuple[str, trailgate.ChangeBatch]]:
    """Yield the source's transactions after a position, each with its own position."""
    first = 0 if position is None else int(position)
    for number in range(first, len(MESSAGES)):
        yield str(number + 1), CAPTURE.parse(trailgate.messages_from([MESSAGES[number]])).batch


# The first run is interrupted: two transactions are committed, a third one is only written.
with trailgate.TrailAppender("dirdat/lt", CAPTURE.definitions) as trail:
    for position, batch in batches(trail.recovered.source_position):
        trail.append(batch)
        if position == "3":
            break
        trail.commit(position)

# The second one is told where the source continues, and what of it the trail already has.
with trailgate.TrailAppender("dirdat/lt", CAPTURE.definitions) as trail:
    print("continue at", trail.recovered.source_position, "without", trail.recovered.transactions)
    given = batches(trail.recovered.source_position)
    for number, (position, batch) in enumerate(given):
        if number >= trail.recovered.transactions:
            trail.append(batch)
        trail.commit(position)

orders = trailgate.read_trail("dirdat/lt", table="SHOP.ORDERS").read_all()
print(orders["ITEM"].to_pylist())
