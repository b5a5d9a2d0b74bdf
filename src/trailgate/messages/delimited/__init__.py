"""Delimited messages: fields, values and images."""
