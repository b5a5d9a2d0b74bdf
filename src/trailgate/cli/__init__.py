"""The command line: one file per command; prints, exits, nothing else."""
