"""Profiler files: readers into one columnar model, timeline, idle blame, critical path, views.

Imports base, proc, store and measure only. Nothing here draws on a terminal, gives advice
(`advise/`) or decodes instructions (`gpu/`).
"""
