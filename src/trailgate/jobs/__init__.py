"""What plans work, runs its parts anywhere, and publishes the result."""
