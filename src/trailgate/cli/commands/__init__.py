"""The commands that belong to no feature, one module each. A module's function ``command`` is the command."""
