"""Advice: rules that turn traces and samples into what to do, with an estimated gain and evidence.

A rule is a function from what was measured to pieces of advice; `rules.py` lists the rules over
traces, `stalls.py` those over program-counter samples. Nothing here reads files or prints.
"""
