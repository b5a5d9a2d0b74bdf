"""Storage: trail directories, manifests and journals, on local disks or in object stores."""
