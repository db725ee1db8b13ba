"""What the sources of one run share: toolchain, workers, store, and how to search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, cast

from planish.base.closing import Closing
from planish.base.errors import UsageError, unknown
from planish.base.progress import Progress, Silent
from planish.base.records import Budget
from planish.llvm.requests import HANDLER, UNITS
from planish.llvm.toolchain import find_library, find_toolchain
from planish.tune.workers import open_pool

if TYPE_CHECKING:
    from planish.llvm.vocabulary import Vocabulary
    from planish.store.store import Store

_Kept = TypeVar("_Kept", bound=Closing)
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
    llm_model  for the policy `llm`: a folder, a name on the Hugging Face Hub, or the server's name
    llm_url    an OpenAI-compatible server; without it the model runs here
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
    llm_model: str = ""
    llm_url: str = ""

    def __post_init__(self) -> None:
        if self.goal not in UNITS:
            raise unknown("goal", self.goal, UNITS)
        if self.policy != DEFAULT_POLICY:  # a replay, which has no policy, imports none
            from planish.tune.policies import GIVEN_POLICIES, POLICIES

            if self.policy not in (*POLICIES, *GIVEN_POLICIES):
                raise unknown("policy", self.policy, (*POLICIES, *GIVEN_POLICIES))
        if (self.policy == "llm") != bool(self.llm_model or self.llm_url):
            raise UsageError(
                "the policy llm needs a model, and a model needs the policy llm",
                hint="--policy llm with --llm-model NAME or --llm-url URL",
            )
        if self.llm_url and not self.llm_url.startswith(("http://", "https://")):
            raise UsageError(f"'{self.llm_url}' is no URL of a server", hint="http:// or https://")
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
    """A toolchain with its worker pool, and the store.

    workers  the Ray cluster that builds; this machine alone where none is named
    here     one build in this very process, which may die of it (`proc/here.py`)
    """

    def __init__(
        self,
        *,
        jobs: int = 1,
        store: Store | None = None,
        progress: Progress | None = None,
        workers: str = "",
        here: bool = False,
    ) -> None:
        library, version, _ = find_library()
        self.pool = open_pool(
            workers,
            HANDLER,
            str(library),
            jobs=jobs,
            seconds=_SECONDS_PER_BUILD,
            memory=_BYTES_PER_WORKER,
            here=here,
        )
        self.pool.start()  # libLLVM is loaded while the front end is looked for and at work
        self.toolchain = find_toolchain(() if version else self.pool.info.version)
        self.store = store
        self.progress: Progress = progress or Silent()
        self._kept: dict[str, Closing] = {}

    @property
    def compiler(self) -> str:
        """libLLVM's own word on its version: results of two versions never mix."""
        return "LLVM " + ".".join(map(str, self.pool.info.version))

    def vocabulary(self, architecture: str) -> Vocabulary:
        """What may be used for libLLVM's name of a target (`X86`)."""
        from planish.llvm import vocabulary  # a replay needs none

        info = self.pool.info
        front_end = None if architecture in info.targets else self.toolchain.front_end
        return vocabulary.load(self.toolchain.library, info.version, architecture, front_end)

    def keep(self, name: str, make: Callable[[], _Kept]) -> _Kept:
        """Something that all sources of the session use, made when first asked for."""
        if name not in self._kept:
            self._kept[name] = make()
        return cast(_Kept, self._kept[name])

    def close(self) -> None:
        """End the workers and close the store and whatever is kept."""
        for kept in self._kept.values():
            kept.close()
        self.pool.close()
        if self.store is not None:
            self.store.close()
