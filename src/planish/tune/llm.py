"""The policy of language models: what they are asked of a task, what wrong answers become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planish.base.config import read_llm_config
from planish.base.errors import ToolchainError
from planish.base.records import Failure, Outcome
from planish.llvm.recipe import Recipe
from planish.llvm.requests import Build
from planish.model.llm_local import LocalModel, pass_lists
from planish.model.llm_prompt import Question
from planish.model.llm_server import ChatPolicy, Server
from planish.proc.pool import Call
from planish.search.protocol import Evaluate, Plan, Policy, Space
from planish.search.streamed import StreamPolicy
from planish.tune.pass_space import describe, localise, to_plan

if TYPE_CHECKING:
    from planish.tune.session import Options, Session
    from planish.tune.source import Task


def llm_policy(
    session: Session, task: Task, space: Space, options: Options, baseline: float
) -> Policy:
    """The policy for one task: a server's where a URL is given, else a local model's.

    baseline  the goal's value under `space.start`
    A local model is loaded once in a session. Raises PlanishError where a model cannot be had.
    """
    text = _text(session, task)
    if not options.llm_url:
        model = session.keep(f"llm {options.llm_model}", lambda: LocalModel(options.llm_model))
        return StreamPolicy(pass_lists(model, text, options.goal, space))
    actions = tuple(dict.fromkeys((*space.start.actions, *space.actions(space.start))))
    question = Question(
        text=text, goal=options.goal, version=session.compiler.removeprefix("LLVM "),
        baseline=",".join(space.start.actions), value=baseline,
        passes=[action for action in actions if not action.startswith("-")],
        options=[action for action in actions if action.startswith("-")],
    )  # fmt: skip

    def plan(item: Recipe | str) -> Plan:
        return Plan((item,)) if isinstance(item, str) else localise(to_plan(item), space)

    server = Server(options.llm_url, options.llm_model, read_llm_config(), options.seed)
    return ChatPolicy(server.ask, question, plan)


def checked(space: Space, evaluate: Evaluate) -> Evaluate:
    """Evaluates legal plans; the others are answered as invalid, with the reason, and not built."""

    def check(plans: Sequence[Plan]) -> Sequence[Outcome]:
        legal = [plan for plan in plans if space.legal(plan.actions)]
        outcomes = iter(evaluate(legal) if legal else ())
        return [
            next(outcomes) if space.legal(plan.actions) else _invalid(space, plan) for plan in plans
        ]

    return check


def _invalid(space: Space, plan: Plan) -> Outcome:
    wrong = next((action for action in plan.actions if not space.legal((action,))), "")
    reason = f"'{wrong}' is none of the elements" if wrong else "too long, or an option twice"
    return Outcome(describe(plan), failure=Failure.INVALID, reason=reason)


def _text(session: Session, task: Task) -> str:
    """The unoptimised module, marked for size where candidates are, as textual IR."""
    build = Build(task.search, Recipe(), emit=False, keep=("ll",))
    [reply] = session.pool.run([Call((), build, (task.search.blob,))])
    if reply.failure is not None:
        raise ToolchainError(f"{task.source}: the module cannot be printed: {reply.reason}")
    text: bytes = reply.value.artefacts["ll"]
    return text.decode(errors="replace")
