"""The commands of Logdump, grouped by subject. ``table`` combines them."""
