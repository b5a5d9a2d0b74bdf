"""Write changes as trail bytes."""
