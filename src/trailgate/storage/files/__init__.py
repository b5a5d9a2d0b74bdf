"""Files and folders: listings, manifests, locks, checkpoints, quarantine."""
