"""GPU machine code: decoding of NVIDIA SASS listings, control flow, def-use slicing of stalls.

Knows instructions, not profiles: no file formats of profilers here, no advice.
"""
