"""The commands, one module each. A module's function ``command`` is the command."""
