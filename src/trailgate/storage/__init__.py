"""Storage: the files of trails, message files, manifests and checkpoints, on local disks or in object stores."""
