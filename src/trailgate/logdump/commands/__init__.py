"""The commands of Logdump, one file a group."""
