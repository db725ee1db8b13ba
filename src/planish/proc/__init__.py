"""Killable worker processes: forked from a clean process, limited in time and memory.

Whatever may crash, hang or eat memory runs here. Knows nothing of what the workers do: a worker
is named by the import path of a `Handler`. Beside them the warm process that runs whole commands
(`client.py`, `server.py`). Nothing but `base` may be imported.
"""
