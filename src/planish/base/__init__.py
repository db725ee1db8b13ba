"""Records, errors, hashing, configuration, files and progress: what every other layer speaks in.

Imports nothing from the rest of Planish and nothing heavy. No LLVM, no loops, no printing here.
"""
