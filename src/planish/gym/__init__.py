"""Gymnasium environments over Planish's spaces; importing this package registers them.

    import gymnasium, planish.gym
    env = gymnasium.make("planish/Passes-v0", benchmark="lzss.c")

Knows spaces, tasks and builds through `tune`; nothing below knows of it. A new kind of work brings
a `Problem` (`problem.py`) and a line in `_ENVIRONMENTS`; the environment itself is one for all.
"""

from __future__ import annotations

from planish.base.errors import PlanishError

try:
    import gymnasium
except ImportError as error:
    raise PlanishError(
        "planish.gym needs gymnasium, which is not installed", hint="pip install 'planish[gym]'"
    ) from error

from planish.gym.env import Episode, PlanEnv

__all__ = ["Episode", "PlanEnv"]

_ENVIRONMENTS = {
    "planish/Passes-v0": "planish.gym.passes:make_passes",
    "planish/Loops-v0": "planish.gym.loops:make_loops",
}

for _name, _maker in _ENVIRONMENTS.items():
    if _name not in gymnasium.registry:
        gymnasium.register(_name, entry_point=_maker)
