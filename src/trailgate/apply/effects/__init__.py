"""Compute which rows of a target table a batch of operations changes, without writing to the table.

A batch passes through these modules in turn: ``operations`` converts it to the target's columns and
types, and ``nets`` combines the operations on each key with array operations, for most keys.
``collisions`` compares these results with the rows that the target has, and ``replay`` processes
the operations on the remaining keys one by one. The modes soft-delete, history and append have a
module each.
"""
