"""Capture messages into a trail, and read it back."""

import trailgate

summary = trailgate.capture_files("messages", "dirdat/ot", "shop.properties")
print(f"{summary.operations} operations of {summary.transactions} transactions")

for row in trailgate.read_trail("dirdat/ot", tables="GG.SHOP_*").read_all().to_pylist():
    print(row["op_type"], row["tx_id"], dict(row["before"] or ()), "->", dict(row["after"] or ()))

# One table's rows, in the types of its columns.
customers = trailgate.read_trail("dirdat/ot", table="GG.JMSCAP_TCUSTMER").read_all()
print(customers.column("NAME").to_pylist())

# A single message, without any file. A bad one is reported, with its place and its bytes.
capture = trailgate.load_capture("shop.properties")
parsed = capture.parse(trailgate.messages_from(["I,GG.SHOP_ORDERS,2026-01-05,T-9,NULL,1"]))
for problem in parsed.problems:
    print(problem.error)
