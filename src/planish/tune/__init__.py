"""Wires a space, an evaluator, a policy, the store and the checks: one file a kind of work.

The only place that knows them all. No parsing of command lines and no printing here.
"""
