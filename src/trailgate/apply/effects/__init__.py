"""Compute which rows of a target table a batch of operations changes, without writing to the table.

A batch passes through these modules in turn: ``operations`` converts it to the target's columns and
types, ``nets`` combines the operations on each key in whole columns, ``replay`` processes the
operations on the remaining keys one by one, and ``collisions`` compares the result with the rows
that the target has. The modes soft-delete, history and append have a module each.
"""
