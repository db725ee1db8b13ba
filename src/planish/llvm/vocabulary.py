"""Which passes, attributes and options this LLVM accepts for a target.

`data/passes.toml` and `data/options.toml` list what may be tried and what is kept out, with
reasons. Every entry is tried on `data/smoke.ll` in a worker process: before and after the default
pipeline, on the module and on single functions. What is refused, crashes, hangs or breaks the
module is left out. The result is kept on disk for each version, architecture and list.
"""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from planish.base.config import read_config
from planish.base.errors import PlanishError, ToolchainError, unknown
from planish.base.files import write_atomic
from planish.base.hashing import digest
from planish.llvm.frontend import code_generator
from planish.llvm.pipeline import Pipeline
from planish.llvm.recipe import Recipe
from planish.llvm.requests import HANDLER, Build, Job, Target
from planish.llvm.toolchain import FrontEnd
from planish.proc.pool import Call, Pool, Reply

_SMOKE_SECONDS = 10.0
_FILES = ("passes.toml", "options.toml", "smoke.ll")


@dataclass(frozen=True)
class Vocabulary:
    """What a search may use.

    module      elements of a module pipeline, function passes wrapped in `function(...)`
    function    what may stand in one function's suffix
    attributes  elements such as `@frame-pointer=all`, for both
    options     words for the code generator
    rejected    what was tried and refused, with the reason
    """

    version: str
    architecture: str
    module: tuple[str, ...]
    function: tuple[str, ...]
    attributes: tuple[str, ...]
    options: tuple[str, ...]
    rejected: Mapping[str, str] = field(default_factory=dict)


@functools.cache
def load(
    library: Path,
    version: tuple[int, int, int],
    architecture: str,
    front_end: FrontEnd | None = None,
) -> Vocabulary:
    """The vocabulary, from disk where it was generated before.

    architecture  libLLVM's name of the target (`X86`, `AArch64`)
    front_end     what generates code where this libLLVM lacks the target
    """
    text = ".".join(map(str, version))
    lists = digest(*(_data(name) for name in _FILES))[:12]
    shipped = resources.files("planish.llvm") / "data" / f"vocabulary-{text}-{architecture}.json"
    own = shipped.is_file() and (front_end is None or front_end.version == version)
    made_by = f"-clang{'.'.join(map(str, front_end.version))}" if front_end else ""
    path = read_config().cache_dir / f"vocabulary-{text}{made_by}-{architecture}-{lists}.json"
    for read in (path.read_text, *([shipped.read_text] if own else [])):
        try:
            document = json.loads(read(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if document.pop("lists", "") == lists:
            return _from_json(document)
    with Pool(HANDLER, str(library), jobs=2, seconds=_SMOKE_SECONDS) as pool:
        vocabulary = generate(pool, architecture, front_end=front_end)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, to_json(vocabulary))
    except (OSError, PlanishError):
        pass  # it is generated again next time; a read-only home must not stop the work
    return vocabulary


def to_json(vocabulary: Vocabulary) -> str:
    """The text that `load` reads, with the hash of the lists that it was made from."""
    lists = digest(*(_data(name) for name in _FILES))[:12]
    return json.dumps({**asdict(vocabulary), "lists": lists}, indent=1, sort_keys=True) + "\n"


def generate(
    pool: Pool,
    architecture: str,
    passes: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    front_end: FrontEnd | None = None,
) -> Vocabulary:
    """Try every entry of the lists (the shipped ones by default).

    front_end  what options are tried with on targets that libLLVM lacks; without it they have none
    """
    passes = passes if passes is not None else tomllib.loads(_data("passes.toml").decode())
    options = options if options is not None else tomllib.loads(_data("options.toml").decode())
    pool.keep("smoke", _data("smoke.ll"))
    job = Job("smoke", Target(_TRIPLES.get(architecture, "")))
    attributes = _both(passes.get("attributes", {}), architecture)
    barred = options.get("denied for", {}).get(architecture, {})
    words = [word for word in _both(options, architecture) if word not in barred]
    if architecture not in pool.info.targets:
        job = Job("smoke", Target(), clang=_generator(architecture, front_end))
        words = words if job.clang else []
    level = "default<O2>" if pool.info.version[0] >= 23 else "default<Oz>"
    [plain] = pool.run([_call(job, Recipe((level,)))])
    if plain.failure is not None:
        raise ToolchainError(f"this LLVM does not build the smoke test: {plain.reason}")
    trials: dict[str, list[Call]] = {}
    for element in (*passes["module"], *attributes):
        trials[element] = _module_trials(job, element, level)
    functions = _function_names()
    for element in passes["function"]:
        wrapped = f"function({element})"
        single = Recipe((level,)).with_functions(dict.fromkeys(functions, element))
        trials[element] = [*_module_trials(job, wrapped, level), _call(job, single)]
    for word in words:
        trials[word] = [_call(job, Recipe((level,), (word,)))]
    rejected = _rejected(pool, trials)
    refused = {**passes.get("denied", {}), **options.get("denied", {}), **barred}
    denied = {f"{name} (denied)": why for name, why in refused.items()}
    module = [f"function({e})" for e in passes["function"]]
    return Vocabulary(
        version=".".join(map(str, pool.info.version)),
        architecture=architecture,
        module=tuple(
            [e for e in passes["module"] if e not in rejected]
            + [w for w, e in zip(module, passes["function"], strict=True) if e not in rejected]
        ),
        function=tuple(e for e in passes["function"] if e not in rejected),
        attributes=tuple(e for e in attributes if e not in rejected),
        options=tuple(e for e in words if e not in rejected),
        rejected={**rejected, **denied},
    )


def check_passes(vocabulary: Vocabulary, pipeline: str) -> None:
    """Raise UsageError, with near matches, for a pass in the pipeline that is not known."""
    known = {
        name
        for element in (*vocabulary.module, *vocabulary.function, *vocabulary.attributes)
        for name in Pipeline.parse(element).names()
    }
    for name in Pipeline.parse(pipeline).names():
        if name not in known:
            raise unknown("pass", name, known)


def check_options(vocabulary: Vocabulary, options: Iterable[str]) -> None:
    """Raise UsageError, with near matches, for an option that is not known."""
    for option in options:
        if option not in vocabulary.options:
            raise unknown("code generator option", option, vocabulary.options)


_TRIPLES = {
    "X86": "x86_64-unknown-linux-gnu",
    "AArch64": "aarch64-unknown-linux-gnu",
    "ARM": "thumbv7m-none-unknown-eabi",
    "RISCV": "riscv64-unknown-linux-gnu",
    "WebAssembly": "wasm32-unknown-unknown",
}


def _both(table: Mapping[str, Any], architecture: str) -> list[str]:
    return [*table.get("all", []), *table.get(architecture, [])]


def _module_trials(job: Job, element: str, level: str) -> list[Call]:
    return [_call(job, Recipe((element,))), _call(job, Recipe((level, element)))]


def _generator(architecture: str, front_end: FrontEnd | None) -> tuple[str, ...]:
    triple = _TRIPLES.get(architecture)
    if front_end is None or triple is None:  # no list of options either
        return ()
    return code_generator(front_end, (f"--target={triple}",))


def _call(job: Job, recipe: Recipe) -> Call:
    # A front end generates code where libLLVM lacks the target: a process each, for options alone.
    emit = bool(job.target.triple or (job.clang and recipe.options))
    return Call(recipe.options, Build(job, recipe, emit=emit), (job.blob,))


def _rejected(pool: Pool, trials: Mapping[str, list[Call]]) -> dict[str, str]:
    """Entry to the reason of the first of its trials that failed."""
    calls = [(name, call) for name, group in trials.items() for call in group]
    rejected: dict[str, str] = {}
    for (name, _), reply in zip(calls, pool.run([call for _, call in calls]), strict=True):
        if name not in rejected and reply.failure is not None:
            rejected[name] = _reason(reply)
    return rejected


def _reason(reply: Reply) -> str:
    return f"{reply.failure}: {reply.reason.splitlines()[0] if reply.reason else ''}".strip()


def _function_names() -> list[str]:
    """Functions of the smoke module, from its text."""
    lines = _data("smoke.ll").decode().splitlines()
    names = [
        line.partition("@")[2].partition("(")[0] for line in lines if line.startswith("define")
    ]
    return [name for name in names if name]


@functools.cache
def _data(name: str) -> bytes:
    return (resources.files("planish.llvm") / "data" / name).read_bytes()


def _from_json(document: dict[str, Any]) -> Vocabulary:
    def words(name: str) -> tuple[str, ...]:
        return tuple(document[name])

    return Vocabulary(
        version=document["version"],
        architecture=document["architecture"],
        module=words("module"),
        function=words("function"),
        attributes=words("attributes"),
        options=words("options"),
        rejected=document["rejected"],
    )
