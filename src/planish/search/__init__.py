"""Searches: the protocol, the loop that spends a budget, and one small file a policy.

A policy suggests plans and observes their outcomes. Nothing here knows what a plan means: no
LLVM, no loops, no files. Only `base` may be imported.
"""
