"""Run apply: read batches of a trail, write them to a target, and store the position."""
