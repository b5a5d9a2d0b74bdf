"""One command a file; a command is the function ``command`` of its module."""
