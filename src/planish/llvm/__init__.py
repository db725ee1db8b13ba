"""LLVM: toolchain discovery, the binding, modules, pipelines as text, vocabularies, recipes.

`toolchain`, `pipeline`, `vocabulary` and `recipe` run anywhere. `binding`, `module` and `worker`
load libLLVM and run in worker processes only, since passes crash. No search, no policy here.
"""
