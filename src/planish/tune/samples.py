"""Samples: modules drawn from a corpus, each with its baseline and what builds and measures it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from planish.base.errors import CompileError, UsageError
from planish.llvm import frontend
from planish.llvm.requests import Facts, Inspect, Job
from planish.model.corpus import Module, flags_below, load_corpus, read_bitcode, source_folder
from planish.proc.pool import Call
from planish.search.protocol import Plan
from planish.store.store import Key
from planish.tune.pass_evaluator import PassEvaluator
from planish.tune.session import Session
from planish.tune.source import front_end_for
from planish.tune.targets import find_target
from planish.tune.winners import Sample

Say = Callable[[str], None]
_SMALLEST = 60
# A module whose data dwarf its code tells nothing: no recipe can change it much.
_LARGEST_BYTES_PER_INSTRUCTION = 40


def draw(
    corpus: Path, split: str, count: int, seed: int, *, smallest: int = _SMALLEST, largest: int
) -> list[Module]:
    """A seeded draw of modules of one split, in turn from each project."""
    groups: dict[str, list[Module]] = {}
    for module in sorted(load_corpus(corpus).modules, key=lambda module: module.sha):
        if module.split == split and smallest <= module.instructions <= largest:
            groups.setdefault(module.project, []).append(module)
    rng = random.Random(seed)
    for name in sorted(groups):
        rng.shuffle(groups[name])
    chosen: list[Module] = []
    while len(chosen) < count and any(groups.values()):
        chosen += [groups[name].pop() for name in sorted(groups) if groups[name]]
    if not chosen:
        raise UsageError(f"the corpus {corpus} has no {split} modules of that size")
    return chosen[:count]


def bitcode_for(session: Session, corpus: Path, module: Module, architecture: str) -> bytes | None:
    """The module's bitcode, compiled again where another architecture is asked for."""
    target = find_target(architecture)
    if not target.flags:
        return read_bitcode(corpus, module)
    root = source_folder(corpus, module.project)
    flags = flags_below(root, module.flags)
    try:
        return frontend.compile_to_bitcode(
            session.toolchain.need_front_end(),
            root / module.source,
            (*target.flags, *flags),
        )
    except CompileError:
        return None


def make_samples(
    session: Session,
    corpus: Path,
    modules: Sequence[Module],
    architecture: str,
    goal: str,
    start: Plan,
    say: Say,
) -> list[Sample]:
    """Evaluators with their baselines; modules that do not build are left out."""
    samples = []
    clang = front_end_for(find_target(architecture).flags, session.toolchain, session.pool)
    for module in modules:
        data = bitcode_for(session, corpus, module, architecture)
        if data is None:
            continue
        blob = f"{architecture}-{module.sha}"
        session.pool.keep(blob, data)
        [reply] = session.pool.run([Call((), Inspect(Job(blob)), (blob,))])
        if reply.failure is not None:
            continue
        facts: Facts = reply.value
        key = Key(facts.identity, facts.triple, goal, session.compiler)
        frames = frontend.asks_for_frames(module.flags)
        job = Job(blob, clang=clang, frames=frames)
        evaluate = PassEvaluator(session.pool, job, key, session.store, goal)
        [baseline] = evaluate([start])
        if baseline.ok and baseline.value < module.instructions * _LARGEST_BYTES_PER_INSTRUCTION:
            name = f"{module.project}/{module.source}"
            samples.append(Sample(name, module.project, evaluate, baseline, job))
    projects = len({sample.project for sample in samples})
    say(f"{len(samples)} modules of {projects} projects for {architecture}")
    return samples
