"""The commands that do not belong to a feature's package, one module each.

A module's function ``command`` is the command.
"""
