"""Verdicts: does one version of a function refine another?

Translation validation by SMT, differential runs, and reduction of a failure. Imports no code
generator; the solvers are imported where they are used, in worker processes.
"""

from planish.base.face import make_callable

make_callable(__name__, "planish:_verify")
