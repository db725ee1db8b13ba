"""Tensor programs to Triton source that a person can read.

`plan` simplifies a program (inlining, fusion, padding) and cuts it into kernels, `contraction`,
`tiles`, `rows` and `attention` write one kind of kernel each, `lower` puts them together. Nothing
here imports Triton: source is text, compiled and checked above, in `tune`.
"""
