"""x86-64 machine code: the encoder, registers, vector instructions to bytes, the C interface."""
