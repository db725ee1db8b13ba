"""Symbols of objects: what is defined and what is wanted; and which names must stay visible."""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from planish.base.errors import CompileError, UsageError
from planish.build.blobs import Blobs
from planish.build.linking import relink
from planish.build.units import Link

# What code generators call by name, whether or not the program mentions it.
_LIBRARY_WORDS = """
memcpy memmove memset memcmp bcmp bzero strlen strcpy strcat strcmp strchr strrchr strnlen stpcpy
strncpy strncmp memchr mempcpy memccpy printf puts putchar fputs fputc fwrite malloc free calloc
realloc abort exit sqrt sqrtf fmod fmodf fmin fmax floor ceil trunc rint sin cos tan exp exp2 log
log2 log10 pow powf ldexp ldexpf sincos sincosf fma fmaf round setjmp longjmp _Unwind_Resume
"""
LIBRARY_CALLS = frozenset(_LIBRARY_WORDS.split())
# Compilers' runtime libraries: __udivdi3, __aeabi_memcpy, __stack_chk_fail, __cxa_atexit.
_RUNTIME = re.compile(r"__\w+")
_WORD = re.compile(r"[A-Za-z_.$][\w.$]*")


@dataclass(frozen=True)
class Symbols:
    """Global names of one object."""

    defined: frozenset[str]
    wanted: frozenset[str]
    common: frozenset[str] = frozenset()


def symbols(data: bytes, table: str = ".symtab") -> Symbols:
    """Names in an ELF file's table of symbols; raises UsageError for what is none."""
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(io.BytesIO(data))
        section = elf.get_section_by_name(table)
        entries = list(section.iter_symbols()) if section is not None else []  # type: ignore[attr-defined]
    except Exception as error:  # whatever the library's parsers run into
        raise UsageError(f"an object cannot be read: {error}") from error
    seen = [s for s in entries if s.name and s["st_info"]["bind"] != "STB_LOCAL"]
    wanted = frozenset(s.name for s in seen if s["st_shndx"] == "SHN_UNDEF")
    common = frozenset(s.name for s in seen if s["st_shndx"] == "SHN_COMMON")
    return Symbols(frozenset(s.name for s in seen) - wanted, wanted, common)


def pulled(link: Link, blobs: Blobs) -> dict[str, Symbols]:
    """The objects that the link takes, by digest in order: all objects, and members that are
    wanted. An archive is asked again whenever something new is wanted, as inside a group."""
    taken: dict[str, Symbols] = {}
    waiting: list[tuple[int, str, Symbols]] = []
    whole = _whole_archives(link)
    order: dict[str, int] = {}
    for at, (each, name) in enumerate((i, m) for i in link.inputs for _, m in i.members):
        found = symbols(blobs.get(name))
        order.setdefault(name, at)
        if each.archive and each.at not in whole:
            waiting.append((at, name, found))
        else:
            taken[name] = found
    roots = frozenset(entry_names(link))
    while True:
        wanted = roots.union(*(each.wanted for each in taken.values()))
        defined = frozenset[str]().union(*(each.defined - each.common for each in taken.values()))
        wanted -= defined
        chosen = next((w for w in waiting if w[2].defined & wanted and w[1] not in taken), None)
        if chosen is None:
            return {name: taken[name] for name in sorted(taken, key=order.__getitem__)}
        taken[chosen[1]] = chosen[2]


def entry_names(link: Link) -> set[str]:
    """Names that the command itself mentions: entry, -u, linker scripts, version scripts."""
    found = {"main", "_start"}
    words = link.words
    for at, word in enumerate(words):
        after = words[at + 1] if at + 1 < len(words) else ""
        parts = word.removeprefix("-Wl,").split(",") if word.startswith("-Wl,") else [word]
        for place, part in enumerate(parts):
            value = parts[place + 1] if place + 1 < len(parts) else after
            if part in ("-e", "-u", "--entry", "--undefined", "-init", "-fini"):
                found.add(value)
            elif part.startswith(("--entry=", "--undefined=", "--defsym=", "--wrap=")):
                found.update(_WORD.findall(part.partition("=")[2]))
            elif part.startswith(("-e", "-u")) and len(part) > 2:
                found.add(part[2:])
            elif part in ("-T", "--script", "--version-script", "--dynamic-list"):
                found |= _names_in(Path(link.folder) / value)
            elif part.startswith(("-T", "--script=", "--version-script=", "--dynamic-list=")):
                text = part[2:] if part.startswith("-T") else part.partition("=")[2]
                found |= _names_in(Path(link.folder) / text)
    return found


def visible(
    link: Link, blobs: Blobs, units: Iterable[str], taken: Mapping[str, Symbols]
) -> frozenset[str]:
    """Names that someone outside the units' own modules may refer to.

    Wanted by the link's other objects, exported or wanted by shared libraries (the program's
    table of dynamic symbols says both), mentioned by the command or its scripts, or called by code
    generators. For a program without such a table the linker's own cross references tell.
    """
    own = set(units)
    found = set(entry_names(link)) | LIBRARY_CALLS
    for name, each in taken.items():
        found |= each.wanted if name not in own else frozenset()
        found.update(n for n in each.defined if _RUNTIME.fullmatch(n))
    with tempfile.TemporaryDirectory(prefix="planish-") as place:
        folder = Path(place)
        program = folder / "program"
        relink(link, blobs, {}, program)
        dynamic = symbols(program.read_bytes(), ".dynsym").defined
        if dynamic:
            return frozenset(found | dynamic)
        files = folder / "files"
        files.mkdir()
        report = folder / "map"
        lead = "" if link.direct else "-Wl,"
        try:
            words = (f"{lead}--cref", f"{lead}-Map={report}")
            relink(link, blobs, {}, program, more=words, keep=files)
            return frozenset(found | _outside(report.read_text(errors="replace"), str(files)))
        except (CompileError, OSError) as error:
            raise UsageError(
                f"{link.output}: the linker does not say who refers to what",
                hint="whole-program mode needs GNU ld or lld for static programs",
            ) from error


def _outside(text: str, ours: str) -> set[str]:
    """Names that a file which is not ours defines or refers to, by the cross reference table."""
    found: set[str] = set()
    name = ""
    for line in text.partition("Cross Reference Table")[2].splitlines():
        fields = line.split(maxsplit=1)
        if not fields:
            continue
        if not line[0].isspace():
            name = fields[0]
            file = fields[1] if len(fields) > 1 else ""
        else:
            file = line.strip()
        if file and ours not in file:
            found.add(name)
    return found


def _names_in(path: Path) -> set[str]:
    try:
        return set(_WORD.findall(path.read_text(errors="replace")))
    except OSError:
        return set()


def _whole_archives(link: Link) -> set[int]:
    """Places of archives of which every member is taken."""
    on, found, places = False, set[int](), {each.at for each in link.inputs}
    for at, word in enumerate(link.words):
        parts = word.split(",")
        if "--whole-archive" in parts or "-whole-archive" in parts:
            on = True
        if "--no-whole-archive" in parts or "-no-whole-archive" in parts:
            on = False
        if on and at in places:
            found.add(at)
    return found
