"""The commands of Logdump, grouped by subject. ``logdump/conversation.py`` combines them in one table."""
