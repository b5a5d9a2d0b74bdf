"""Read all notations of table definitions into one model, and write Defgen files."""
