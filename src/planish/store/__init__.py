"""What outlives a process: the SQLite store of outcomes and the lockfile of kept recipes.

`store` is a cache on one machine, to be thrown away at will; `lockfile` is text in the user's
repository. Both hold records of `base` and know recipes as text only: nothing of LLVM, loops or
search is imported here, nothing is measured, and nothing is decided.
"""
