"""The command line: one file a command. Parses, calls the face, prints; no logic."""
