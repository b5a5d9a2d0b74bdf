"""Trails: read their bytes into change batches, and write change batches as trail bytes.

`format` describes the bytes, `records` finds and parses records, `values` converts column values,
`reading` and `writing` join these into operations, and `annotation` explains every byte. All of it
works on bytes in memory: no files, no clock. The default is a big-endian trail of format level 3
(release 11.2); other levels and little-endian trails are supported.
"""
