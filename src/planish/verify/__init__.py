"""Verdicts: does one version of a function refine another?

Translation validation by SMT, differential runs, and reduction of a failure. Imports no code
generator; the solvers are imported where they are used, in worker processes.
"""
