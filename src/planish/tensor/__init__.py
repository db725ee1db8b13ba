"""The tensor language: expressions, einsum, programs of stages, loop trees, schedules.

Here lives what a tensor program means: its language, its loop nest, the transformations of the
nest and the NumPy reference that defines the meaning of both. No machine code, no LLVM, no
timing: `codegen` turns a nest into instructions.
"""

from planish.base.face import make_callable

make_callable(__name__, "planish.tensor.functions:tensor")
