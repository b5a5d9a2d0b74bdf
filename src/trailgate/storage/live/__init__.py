"""A trail that is written in place while others read it."""
