"""Trail bytes <-> change batches: format level 3, big-endian; no file, no clock."""
