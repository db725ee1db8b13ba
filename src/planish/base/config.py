"""Environment variables: read here and nowhere else."""

from __future__ import annotations

import os

from planish.base.light import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

# Named tuples, and paths imported where they are made: `planish cc` reads this file before
# anything else, a thousand times in a build.


class Config(NamedTuple):
    """What the environment says.

    llvm       PLANISH_LLVM: the libLLVM shared library to use
    clang      PLANISH_CLANG: the C and C++ front end to use
    cache_dir  PLANISH_CACHE, else XDG_CACHE_HOME/planish, else ~/.cache/planish (for a user with
               no home: a folder in the system's one for temporary files)
    """

    llvm: Path | None
    clang: Path | None
    cache_dir: Path


def read_config() -> Config:
    """Read the environment now (tests change it, so nothing is kept)."""
    from pathlib import Path

    env = os.environ
    cache = env.get("PLANISH_CACHE")
    if cache:
        cache_dir = Path(cache)
    else:
        cache_dir = Path(env.get("XDG_CACHE_HOME") or _home_cache()) / "planish"
    llvm = env.get("PLANISH_LLVM")
    clang = env.get("PLANISH_CLANG")
    return Config(
        llvm=Path(llvm) if llvm else None,
        clang=Path(clang) if clang else None,
        cache_dir=cache_dir,
    )


def _home_cache() -> Path:
    from pathlib import Path

    try:
        return Path.home() / ".cache"
    except RuntimeError:  # a container run under a number that no user has
        import tempfile

        return Path(tempfile.gettempdir()) / f"cache-{os.getuid()}"


class BuildConfig(NamedTuple):
    """What the environment says to `planish cc` and `planish c++`.

    compilers  PLANISH_CC, PLANISH_CXX, PLANISH_LD: the real ones, by role; empty for none given
    record     PLANISH_RECORD: where units are noted; set by `planish record`
    shims      PLANISH_SHIMS: a folder of PATH that does not count; set by `planish record`
    lock       PLANISH_LOCK: the lockfile, instead of the nearest planish.lock above the source
    verbose    PLANISH_VERBOSE: say what is replayed and what is handed on
    keep       whether builds of replays are kept and taken again; not with PLANISH_KEEP=off
    path       PATH
    within     whether a `planish cc` has started this one as its real compiler
    """

    compilers: dict[str, str]
    record: str
    shims: str
    lock: str
    verbose: bool
    keep: bool
    path: tuple[str, ...]
    within: bool


def read_build_config() -> BuildConfig:
    """Read the environment now."""
    env = os.environ
    return BuildConfig(
        {
            "cc": env.get("PLANISH_CC", ""),
            "c++": env.get("PLANISH_CXX", ""),
            "ld": env.get("PLANISH_LD", ""),
        },
        env.get("PLANISH_RECORD", ""),
        env.get("PLANISH_SHIMS", ""),
        env.get("PLANISH_LOCK", ""),
        bool(env.get("PLANISH_VERBOSE")),
        env.get("PLANISH_KEEP") != "off",
        tuple(folder for folder in env.get("PATH", "").split(os.pathsep) if folder),
        bool(env.get("PLANISH_WITHIN")),
    )


def real_environment(given: BuildConfig) -> dict[str, str]:
    """The environment of the real compiler: whatever that starts, it must not lead back here."""
    path = os.pathsep.join(folder for folder in given.path if folder != given.shims)
    ours = ("PLANISH_RECORD", "PLANISH_SHIMS")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {**kept, "PATH": path, "PLANISH_WITHIN": "1"}


class ServerConfig(NamedTuple):
    """What the environment says of the server that runs replays.

    seconds   PLANISH_SERVER: how long it waits for work before it ends; 0 (or `off`) for none
    folder    where its socket lies
    identity  the variables that decide what it loads and how it writes
    """

    seconds: float
    folder: str
    identity: tuple[str | None, ...]


_SERVER_SECONDS = 60.0
_SERVER_VARIABLES = (
    "PLANISH_LLVM", "PLANISH_CLANG", "PATH", "PYTHONPATH", "LANG", "LC_ALL", "LC_CTYPE",
    "PYTHONIOENCODING", "PYTHONUTF8",
)  # fmt: skip


def read_server_config() -> ServerConfig:
    """Read the environment now."""
    env = os.environ
    folder = env.get("XDG_RUNTIME_DIR") or env.get("TMPDIR") or "/tmp"
    try:
        seconds = float(env.get("PLANISH_SERVER") or _SERVER_SECONDS)
    except ValueError:  # "off", and whatever else is no time
        seconds = 0.0
    identity = tuple(env.get(name) for name in _SERVER_VARIABLES)
    return ServerConfig(max(seconds, 0.0), f"{folder}/planish-{os.getuid()}", identity)


def named_compilers(shims: Path) -> dict[str, str]:
    """CC and CXX, the real compilers where a recording is asked for; empty for shims and none."""
    found = {"cc": os.environ.get("CC", ""), "c++": os.environ.get("CXX", "")}
    return {role: "" if str(shims) in words else words for role, words in found.items()}


def with_environment(**values: str) -> dict[str, str]:
    """The environment for a command, with some of it changed."""
    return {**os.environ, **values}


def pin_numpy(threads: int) -> None:
    """Let NumPy, which is not imported yet, compute with so many threads: a peer's fair share."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)


def keep_ray_quiet() -> None:
    """Let Ray, which is not started yet, report nothing about its use to its makers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


class LlmConfig(NamedTuple):
    """What the environment says of language models behind a URL.

    key      PLANISH_LLM_KEY: sent to the server that --llm-url names, and nowhere else
    seconds  PLANISH_LLM_SECONDS: how long one answer may take
    """

    key: str
    seconds: float


_LLM_SECONDS = 300.0


def read_llm_config() -> LlmConfig:
    """Read the environment now; raises UsageError for a time that is none."""
    text = os.environ.get("PLANISH_LLM_SECONDS", "").strip()
    try:
        seconds = float(text or _LLM_SECONDS)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        from planish.base.errors import UsageError

        raise UsageError(f"PLANISH_LLM_SECONDS={text} is no time", hint="give seconds, e.g. 600")
    return LlmConfig(os.environ.get("PLANISH_LLM_KEY", "").strip(), seconds)


def triton_interprets() -> bool:
    """TRITON_INTERPRET: whether Triton kernels are to run on tensors of the CPU."""
    return os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes", "y")


def interpret_triton(wanted: bool) -> None:
    """Let Triton, which is not imported yet, interpret kernels on the CPU, or compile them."""
    os.environ["TRITON_INTERPRET"] = "1" if wanted else "0"
