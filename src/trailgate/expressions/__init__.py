"""Parse and evaluate the expressions of parameter files, such as FILTER, for whole columns."""
