"""Places that trails are written to: local disks, and object stores; how each publishes."""
