"""Trails read in splits, whole or in part, and as a stream."""
