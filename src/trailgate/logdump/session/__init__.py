"""A session: the open file, the position in it, the settings, and the results of commands."""
