"""Work out which rows of a target table a batch of operations changes, without writing to it.

A batch passes through these modules in turn: ``operations`` converts it to the target's columns and
types, ``nets`` combines the operations on each key in whole columns, ``replay`` follows the
remaining keys row by row, and ``collisions`` compares the result with the rows that the target has.
The modes soft-delete, history and append have a module each.
"""
