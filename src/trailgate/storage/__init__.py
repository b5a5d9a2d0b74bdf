"""Where bytes lie: trail directories, manifests and journals, on local disks or object stores."""
