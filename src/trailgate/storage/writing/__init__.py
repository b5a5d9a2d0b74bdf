"""Trail files staged and published."""
