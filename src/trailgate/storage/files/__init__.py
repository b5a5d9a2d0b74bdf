"""Files and folders: addresses, listings, manifests, locks, checkpoints, and quarantine."""
