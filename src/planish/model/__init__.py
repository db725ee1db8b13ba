"""Learning from programs: the corpus, and (later) sequence models over recipes.

May know sources, modules and recipes; knows no policies' wiring and no command line. Training is
behind an extra; nothing heavy is imported at module level.
"""
