"""A file of mainframe records, in EBCDIC with packed and binary numbers, to Parquet."""

import pyarrow.parquet as pq

import trailgate

records = trailgate.read_records("accounts.dat", "account.cpy", code_page="cp037")
print(records.schema.names)

with pq.ParquetWriter("accounts.parquet", records.schema) as writer:
    for batch in records:
        writer.write_batch(batch)

for row in pq.read_table("accounts.parquet").to_pylist():
    print(row)

# A column an item, and only some of them.
flat = trailgate.read_records(
    "accounts.dat", "account.cpy", shape="flat", columns=["OWNER", "CARD"]
)
print(flat.read_all().to_pydict())
