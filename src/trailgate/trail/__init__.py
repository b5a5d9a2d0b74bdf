"""Trails: read their bytes into change batches, and write change batches as trail bytes.

`format` describes the bytes, `records` finds and parses records, `values` converts column values,
`reading` and `writing` combine these for operations, and `annotation` explains every byte. All
modules work on bytes in memory: they use no files and no clock. The default is a big-endian trail
of format level 3 (release 11.2); other levels and little-endian trails are supported.
"""
