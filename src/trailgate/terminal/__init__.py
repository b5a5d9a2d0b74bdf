"""The common part of all commands: options, printers and views, and reading standard input."""
