"""Planish: makes programs smaller and faster by learning how to drive compilers."""
