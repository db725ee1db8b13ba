"""Whole builds: the drop-in compiler, recording a build's units, tuning and replaying them.

Here lives what stands between a build system and `tune`: command lines of compilers, the files
that a recording leaves. No search and no LLVM.
"""
