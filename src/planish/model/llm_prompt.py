"""What language models are asked, and how their answers are read.

Two forms. Models of the LLM Compiler family ("Meta Large Language Model Compiler", 2407.02524) get
their own prompt, and the answer is decoded under a grammar. Every other model is asked as in a
chat, told the outcomes of what it answered before ("Compiler generated feedback for Large Language
Models", 2403.14714), and its free text is searched for recipes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from planish.base.errors import RecipeError
from planish.llvm.pipeline import ADAPTORS, Pipeline
from planish.llvm.recipe import Recipe

Message = dict[str, str]

# The published prompt of the models tuned for object size, and how the others name the goal.
_COMPILER = "[INST] Tell me how to optimize this LLVM-IR for {goal}:\n\n<code>{text}</code> [/INST]"
_GOALS = {"size": "object file size", "instructions": "instruction count"}
# Pass lists stand behind `opt -p '` in all published prompts of these models. The words before it
# in the answers they were trained on are not published.
OPENING = " opt -p '"
CLOSING = "'"
# Longer modules are cut, and the model is told.
_MOST_TEXT = 200_000
_MOST_SHOWN = 60

_SYSTEM = """\
You choose LLVM {version} optimisation pipelines that make one module's {goal} as small as possible.
A recipe is one or two lines:
passes: PIPELINE
options: OPTIONS
PIPELINE is a comma-separated list for `opt -passes=`, built from these elements only, in any \
order, repetitions allowed, at most 20 of them:
{passes}
Elements that start with @ set a function attribute. OPTIONS (the line may be left out) are words \
for the code generator, separated by blanks, each at most once, from these only:
{options}
Answer with recipes only, separated by empty lines, most promising first. No explanations.
"""
_TASK = """\
The module as it comes from the front end, before any pass:

{text}

With `{baseline}` its {goal} is {value}. Answer with {count} different recipes that make it smaller.
"""
_AGAIN = """\
Outcomes of your recipes ({goal}; {baseline} gives {value}; smaller is better):

{rows}

Answer with {count} recipes that you have not given yet; take the outcomes into account.
"""


@dataclass(frozen=True)
class Question:
    """What a model is asked about.

    text      the unoptimised module as textual IR
    baseline  the baseline's pipeline, and its `value`
    """

    text: str
    goal: str
    version: str
    baseline: str
    value: float
    passes: Sequence[str] = ()
    options: Sequence[str] = ()

    @property
    def unit(self) -> str:
        """The goal in words."""
        return "size in allocated bytes" if self.goal == "size" else "number of IR instructions"


def compiler_prompt(text: str, goal: str) -> str:
    """The prompt of LLM Compiler for a module."""
    return _COMPILER.format(goal=_GOALS[goal], text=text)


_COMMENT = re.compile(r"""^((?:[^";]|"[^"]*")*?)\s*;.*$""", re.MULTILINE)
_ATTACHED = re.compile(r"""("[^"]*")|,? ![A-Za-z_.]+ !\d+""")
_METADATA = re.compile(r"^!.*\n?", re.MULTILINE)
_EMPTY = re.compile(r"\n{3,}")


def normalised(text: str) -> str:
    """The module without comments and metadata, which say little about size and take much room.

    Source: "Large Language Models for Compiler Optimization" (2309.07062), which trains on this.
    """
    text = _METADATA.sub("", _COMMENT.sub(r"\1", text))
    return _EMPTY.sub("\n\n", _ATTACHED.sub(r"\1", text)).strip() + "\n"


def spelled(element: str) -> str | None:
    """A pipeline element as LLM Compiler writes it; None for what `opt -p` does not take."""
    if element.startswith(("@", "-")):
        return None
    [only] = Pipeline.parse(element).passes
    return element if only.name in ADAPTORS else f"module({element})"


def chat_start(question: Question, count: int) -> list[Message]:
    """The first messages of a chat."""
    text = normalised(question.text)
    if len(text) > _MOST_TEXT:
        text = f"{text[:_MOST_TEXT]}\n; ... cut here: {len(text) - _MOST_TEXT} more characters\n"
    system = _SYSTEM.format(
        version=question.version, goal=question.unit,
        passes="\n".join(question.passes), options="\n".join(question.options) or "(none)",
    )  # fmt: skip
    task = _TASK.format(
        text=text, baseline=question.baseline, goal=question.unit, value=f"{question.value:.0f}",
        count=count,
    )  # fmt: skip
    return [{"role": "system", "content": system}, {"role": "user", "content": task}]


def chat_again(question: Question, count: int, rows: Sequence[str]) -> Message:
    """The next question, with a row of words for each outcome since the last."""
    shown = [*rows[-_MOST_SHOWN:]] or ["(you gave no recipe that was not tried before)"]
    text = _AGAIN.format(
        goal=question.unit, baseline=question.baseline, value=f"{question.value:.0f}",
        rows="\n\n".join(shown), count=count,
    )  # fmt: skip
    return {"role": "user", "content": text}


_PASSES = re.compile(r"passes\s*[:=]\s*(.*)", re.IGNORECASE)
_OPTIONS = re.compile(r"options\s*[:=]\s*(.*)", re.IGNORECASE)
_COMMAND = re.compile(r"""-(?:passes=|p[ =])(?:"([^"]*)"|'([^']*)'|(\S+))""")
_REASONING = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL)
_DRESS = " \t`*'\"_-"


def read_answer(answer: str) -> list[Recipe | str]:
    """The recipes of an answer in their order; the line instead, where one cannot be read.

    Lines `passes: ...` with an optional `options: ...`, and `opt -passes='...'`, whatever stands
    around them. No such line at all gives the answer's beginning as the only element.
    """
    found: list[Recipe | str] = []
    for line in _REASONING.sub("", answer).splitlines():
        bare = line.strip().lstrip("0123456789.)>#").strip().lstrip(_DRESS)
        if (command := _COMMAND.search(line)) is not None:
            text = command[1] or command[2] or command[3] or ""
            found.append(_recipe(f"passes: {text}", line))
        elif (match := _PASSES.match(bare)) is not None:
            found.append(_recipe(f"passes: {match[1].strip(_DRESS)}", line))
        elif (match := _OPTIONS.match(bare)) is not None and found:
            last = found[-1]
            words = match[1].strip().strip("`*'\"").strip()
            if isinstance(last, Recipe) and words and words.strip("().").lower() != "none":
                found[-1] = _recipe(f"{last}\noptions: {words}", line)
    if not found and answer.strip():
        return [" ".join(answer.split())[:80]]
    return found


def _recipe(text: str, line: str) -> Recipe | str:
    try:
        return Recipe.parse(text)
    except RecipeError:
        return line.strip()[:200]
