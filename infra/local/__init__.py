"""The local provider: full Debian machines in namespaces of one Linux host."""
