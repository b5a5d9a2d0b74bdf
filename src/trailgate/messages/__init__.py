"""Text messages to operations: properties, Extract parameters and the parsers."""
