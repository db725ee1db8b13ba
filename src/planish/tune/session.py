"""What the sources of one run share: toolchain, workers, store, and how to search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planish.base.closing import Closing
from planish.base.errors import unknown
from planish.base.progress import Progress, Silent
from planish.base.records import Budget
from planish.llvm.requests import HANDLER, UNITS
from planish.llvm.toolchain import find_library, find_toolchain
from planish.proc.pool import Pool

if TYPE_CHECKING:
    from planish.store.store import Store

EMITS = ("obj", "bc", "ll", "asm")
DEFAULT_BUILDS = 32
DEFAULT_POLICY = "coreset"
_SECONDS_PER_BUILD = 60.0
_BYTES_PER_WORKER = 6 << 30


@dataclass(frozen=True)
class Options:
    """How to search.

    functions  whether functions may get suffixes of their own
    check      the user's own test: given the artefact, says whether the program still works
    verify     keep only what is proved or tested, function by function
    """

    goal: str = "size"
    budget: Budget = field(default_factory=lambda: Budget(builds=DEFAULT_BUILDS))
    policy: str = DEFAULT_POLICY
    seed: int = 0
    functions: bool = True
    emit: str = "obj"
    explain: bool = False
    check: Callable[[bytes], bool] | None = None
    verify: bool = False

    def __post_init__(self) -> None:
        if self.goal not in UNITS:
            raise unknown("goal", self.goal, UNITS)
        if self.policy != DEFAULT_POLICY:  # a replay, which has no policy, imports none
            from planish.tune.policies import POLICIES

            if self.policy not in POLICIES:
                raise unknown("policy", self.policy, POLICIES)
        if self.emit not in EMITS:
            raise unknown("kind of output", self.emit, EMITS)

    @property
    def keeps(self) -> tuple[str, ...]:
        """What the worker has to send back of the final build."""
        needs_object = self.goal == "size" or self.check is not None
        first = [*(["obj"] if needs_object else []), *(["bc"] if self.verify else [])]
        return tuple(dict.fromkeys([*first, self.emit]))

    @property
    def needs_code(self) -> bool:
        """Whether code has to be generated at all."""
        return bool({"obj", "asm"} & set(self.keeps))


class Session(Closing):
    """A toolchain with its worker pool, and the store."""

    def __init__(
        self, *, jobs: int = 1, store: Store | None = None, progress: Progress | None = None
    ) -> None:
        library, version, _ = find_library()
        self.pool = Pool(
            HANDLER,
            str(library),
            jobs=jobs,
            seconds=_SECONDS_PER_BUILD,
            memory=_BYTES_PER_WORKER,
        )
        self.pool.start()  # libLLVM is loaded while the front end is looked for and at work
        self.toolchain = find_toolchain(() if version else self.pool.info.version)
        self.store = store
        self.progress: Progress = progress or Silent()

    @property
    def compiler(self) -> str:
        """libLLVM's own word on its version: results of two versions never mix."""
        return "LLVM " + ".".join(map(str, self.pool.info.version))

    def close(self) -> None:
        """End the workers and close the store."""
        self.pool.close()
        if self.store is not None:
            self.store.close()
