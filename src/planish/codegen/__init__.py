"""Loop nests to machine code: lowering to vector instructions, the x86 encoder, LLVM IR, memory.

Here lives what turns a nest into something that runs. What a nest means is `tensor`'s; which
schedule is good is decided above, in `tune`.
"""
