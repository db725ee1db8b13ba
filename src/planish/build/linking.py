"""Linking a recorded program again, with some of its objects replaced by others."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from planish.base.errors import CompileError, UsageError
from planish.build.blobs import Blobs
from planish.build.units import Input, Link

_SECONDS = 600
_MAPS = ("-Wl,-Map", "-Wl,--Map", "-Map", "--Map=", "-Wl,--cref", "-Wl,--print-map")


def relink(
    link: Link,
    blobs: Blobs,
    replaced: Mapping[str, bytes | None],
    output: Path,
    *,
    first: bytes | None = None,
    more: Sequence[str] = (),
    keep: Path | None = None,
) -> None:
    """Link the program to another file; the recorded command otherwise, from its own folder.

    replaced  contents by the digest of the object they stand for; None leaves the object out
    first     an object to stand before all others
    more      further words for the linker
    keep      folder for the files that are linked; a temporary one where none is given
    Raises CompileError with the linker's words.
    """
    with tempfile.TemporaryDirectory(prefix="planish-") as temporary:
        folder = keep or Path(temporary)
        words: list[str | None] = list(link.words)
        for at, each in enumerate(link.inputs):
            path = _input(each, blobs, replaced, folder / f"{at}")
            place = each.at
            if link.words[place - 1 : place] == ("-l",):
                words[place - 1] = None
            words[place] = path
        if first is not None:
            (folder / "whole.o").write_bytes(first)
            at = link.inputs[0].at
            words[at] = words[at] or None
            words.insert(at, str(folder / "whole.o"))
        made = _without_output([word for word in words if word is not None])
        _run([*link.compiler, *made, *more, "-o", str(output.resolve())], Path(link.folder), link)


def _input(
    each: Input, blobs: Blobs, replaced: Mapping[str, bytes | None], folder: Path
) -> str | None:
    """The path of an input with what replaces its members; None where nothing is left of it."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for at, (name, made) in enumerate(each.members):
        content = replaced[made] if made in replaced else blobs.get(made)
        if content is None:
            continue
        place = folder / f"{at}" / Path(name).name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(content)
        paths.append(str(place))
    if not each.archive:
        return paths[0] if paths else None
    if not paths:
        return None
    archive = folder / (Path(each.name).name or "lib.a")
    _run([*_ar(), "qcs", str(archive), *paths], folder, None)
    return str(archive)


def _ar() -> list[str]:
    """The archiver: the bundled one, which knows every target's symbols, else the machine's."""
    from planish.llvm.toolchain import find_toolchain

    front_end = find_toolchain().front_end
    if front_end is not None and front_end.root is not None:
        return [front_end.command[0], "ar"]
    for name in ("llvm-ar", "ar"):
        found = shutil.which(name)
        if found:
            return [found]
    raise UsageError("no archiver was found", hint="install binutils or ziglang")


def _without_output(words: Sequence[str]) -> list[str]:
    """The words without the output and without side files, which are the build's own."""
    made: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "-o" or word == "-Map":
            next(rest, None)
        elif not word.startswith(_MAPS) and not (word.startswith("-o") and len(word) > 2):
            made.append(word)
    return made


def _run(command: list[str], folder: Path, link: Link | None) -> None:
    what = f"{link.output} does not link again" if link else "an archive cannot be made"
    # The user's language would change the linker's words, which are looked into.
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, timeout=_SECONDS, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompileError(f"{what}: {error}", hint="is the build's folder as it was?") from error
    if done.returncode:
        text = done.stderr.decode(errors="replace")
        raise CompileError(what, diagnostics=text, hint="the linker's message stands above")


def program_size(path: Path) -> tuple[int, dict[str, int]]:
    """Allocated bytes of a program, and by section."""
    from planish.measure.sizes import measure_object

    sizes = measure_object(path.read_bytes())
    return sizes.allocated, sizes.sections


def find_link(links: Sequence[Link], name: str) -> Link:
    """The link that makes the named file; without a name the largest. Raises UsageError."""
    if not links:
        raise UsageError("no link was recorded", hint="record a build that links a program")
    if not name:
        return max(links, key=lambda link: (link.own, link.output))
    wanted = os.path.normpath(name)
    for link in links:
        if wanted in (os.path.normpath(link.output), link.path.name, str(link.path)):
            return link
        if Path(wanted).resolve() == link.path:
            return link
    made = ", ".join(sorted(link.output for link in links)[:8])
    raise UsageError(f"no link makes {name}", hint=f"recorded: {made}")
