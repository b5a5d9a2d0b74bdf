"""Files and folders: addresses, listings, manifests, locks, and quarantine."""
