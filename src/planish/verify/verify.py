"""Whole modules: which functions correspond, and a verdict for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planish.base.closing import Closing
from planish.base.errors import UsageError, unknown
from planish.base.hashing import digest
from planish.base.records import Grade, Verdict
from planish.llvm.toolchain import find_library
from planish.proc.pool import Call, Pool, Reply
from planish.store.store import Store
from planish.verify import solvers
from planish.verify.cache import Cache
from planish.verify.requests import (
    DEFAULT_BOUND,
    DEFAULT_SECONDS,
    HANDLER,
    FunctionVerdict,
    List,
    Validate,
)

_SLACK = 3.0 * solvers.BUSY  # a worker's wall time is so many times the solvers'
_SPARE = 60.0  # s: encoding and tests take as long on a small budget
_MEMORY = 12 << 30
_BOTH = ("first", "second")


@dataclass(frozen=True)
class Limits:
    """How far to go.

    bound    rounds of each loop
    seconds  processor time of each solver, for each function
    explain, run, proofs, test_first  as in `requests.Validate`
    """

    bound: int = DEFAULT_BOUND
    seconds: float = DEFAULT_SECONDS
    explain: bool = False
    run: bool = True
    proofs: bool = True
    test_first: bool = False

    def __post_init__(self) -> None:
        if self.bound < 1:
            raise UsageError(f"the bound {self.bound} follows no loop", hint="give 1 or more")
        if not 0 < self.seconds <= 3600:
            raise UsageError(f"{self.seconds:g} seconds make no budget", hint="up to 3600")


@dataclass(frozen=True)
class Report:
    """The verdicts of a module's functions, in its order.

    missing  functions of `before` that `after` has not
    broken_by, shortest  of the first refutation, where passes were run: the first that breaks it,
                         and a list of passes of which none can be left out
    """

    functions: tuple[FunctionVerdict, ...]
    missing: tuple[str, ...] = ()
    cached: int = 0
    broken_by: str = ""
    shortest: tuple[str, ...] = ()

    @property
    def refuted(self) -> tuple[FunctionVerdict, ...]:
        return tuple(one for one in self.functions if one.grade is Grade.REFUTED)

    def count(self, grade: Grade) -> int:
        """Functions of this grade."""
        return sum(1 for one in self.functions if one.grade is grade)

    @property
    def verdict(self) -> Verdict:
        """The weakest of all functions' verdicts."""
        order = [Grade.REFUTED, Grade.UNKNOWN, Grade.TESTED, Grade.PROVED_TO_BOUND, Grade.PROVED]
        if not self.functions:
            return Verdict(Grade.UNKNOWN, "no function in both")
        weakest = min(self.functions, key=lambda one: order.index(one.grade))
        if weakest.grade in (Grade.REFUTED, Grade.UNKNOWN):
            return Verdict(weakest.grade, f"({weakest.function})")
        return weakest.verdict


class Verifier(Closing):
    """Verifying workers, kept for several modules. Raises ToolchainError without a solver."""

    def __init__(
        self, *, jobs: int = 1, seconds: float = DEFAULT_SECONDS, store: Store | None = None
    ) -> None:
        solvers.installed()  # told here, rather than by a worker that cannot start
        library, _, _ = find_library()
        self._pool = Pool(
            HANDLER, str(library), jobs=jobs, seconds=seconds * _SLACK + _SPARE, memory=_MEMORY
        )
        self._cache = Cache(store)

    def close(self) -> None:
        """End the workers."""
        self._pool.close()

    def verify(
        self,
        before: bytes,
        after: bytes,
        *,
        limits: Limits | None = None,
        functions: Sequence[str] = (),
        step: Callable[[FunctionVerdict], None] | None = None,
    ) -> Report:
        """Verdicts for every function with a body in both modules, or for those named.

        step  called with each verdict as it comes
        Raises UsageError for a module that cannot be read or a name that is not in both.
        """
        limits = limits or Limits()
        keys = []
        for data in (before, after):
            keys.append(digest(data))
            self._pool.keep(keys[-1], data)
        first, second = (
            self._functions(key, which) for key, which in zip(keys, _BOTH, strict=True)
        )
        names = [name for name in first if name in second]
        missing = tuple(name for name in first if name not in second)
        for name in functions:
            if name not in names:
                raise unknown("function", name, names)
        names = [name for name in names if name in functions] if functions else names
        found: dict[str, FunctionVerdict] = {}
        asked = []
        for name in names:
            held = self._cache.get(first[name], second[name], limits)
            if held is not None:
                found[name] = held
            else:
                asked.append(name)
        cached = len(found)
        calls = [_call(name, keys, limits, first[name] == second[name]) for name in asked]
        for at, reply in self._pool.stream(calls):
            name = asked[at]
            found[name] = _verdict(name, reply)
            if reply.failure is None:
                self._cache.put(first[name], second[name], limits, found[name])
            if step is not None:
                step(found[name])
        return Report(tuple(found[name] for name in names), missing, cached)

    def common(self, before: bytes, after: bytes) -> list[str]:
        """Functions with a body in both modules."""
        found = []
        for data, which in zip((before, after), _BOTH, strict=True):
            key = digest(data)
            self._pool.keep(key, data)
            found.append(self._functions(key, which))
        return [name for name in found[0] if name in found[1]]

    def _functions(self, key: str, which: str) -> dict[str, str]:
        [reply] = self._pool.run([Call((), List(key), (key,))])
        if reply.failure is not None:
            reason = reply.reason.removeprefix("UsageError: ").rpartition(f"{key}:")[2]
            shown = "".join(c for c in reason if c.isprintable())
            raise UsageError(f"cannot read the {which} module: {shown}", hint="is it LLVM IR?")
        return dict(reply.value)


def _call(name: str, keys: Sequence[str], limits: Limits, same: bool) -> Call:
    request = Validate(
        keys[0],
        keys[1],
        name,
        limits.bound,
        limits.seconds,
        limits.explain,
        limits.run,
        limits.proofs,
        limits.test_first,
        same,
    )
    return Call((), request, (keys[0], keys[1]))


def _verdict(name: str, reply: Reply) -> FunctionVerdict:
    if reply.failure is None:
        verdict: FunctionVerdict = reply.value
        return verdict
    reason = f"the check ended early: {reply.failure}: {reply.reason.splitlines()[0][:200]}"
    return FunctionVerdict(name, Verdict(Grade.UNKNOWN), reason)
