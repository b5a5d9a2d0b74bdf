"""The command line: parse arguments, run jobs, print results, and set exit codes."""
