"""What a live capture reads: numbered messages that can be given again."""
