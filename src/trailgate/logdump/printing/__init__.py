"""Results as text in Logdump's form, and as JSON."""
