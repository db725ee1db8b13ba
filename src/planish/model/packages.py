"""Debian source packages, fetched with apt in a configuration of its own.

The machine's own lists and sources are left alone: the `deb` entries that it has are read, turned
into `deb-src` entries and used with folders below the corpus.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

from planish.base.errors import PlanishError, UsageError
from planish.proc.command import run_command

_APT = Path("/etc/apt")
_SECONDS = 900.0


class Fetcher:
    """Fetches and unpacks source packages below `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._ready = False

    def unpack(self, package: str, target: Path) -> tuple[str, Path]:
        """(version, folder) of the unpacked package; what is there already is not fetched again.

        Raises PlanishError when the package cannot be fetched or unpacked.
        """
        stamp = target.with_name(f".{target.name}.version")
        if target.is_dir() and stamp.exists():
            return stamp.read_text(encoding="utf-8"), target
        self._prepare()
        work = self._folder / package
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        descriptions = self._download(package, work)
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        command = f"dpkg-source --no-check -x {shlex.quote(str(descriptions[0]))}"
        finished = run_command(f"{command} {shlex.quote(str(target))}", seconds=_SECONDS)
        if not finished.ok:
            raise PlanishError(f"{package} cannot be unpacked", hint="is dpkg-dev installed?")
        version = _version(descriptions[0].read_text(encoding="utf-8", errors="replace"))
        stamp.write_text(version, encoding="utf-8")
        shutil.rmtree(work, ignore_errors=True)
        return version, target

    def _download(self, package: str, work: Path) -> list[Path]:
        """The package's description, with its files beside it; the newest version that is there.

        A mirror may list what it has not got yet, or has no longer.
        """
        listed = self._words("apt-cache", f"madison {package}")
        versions = dict.fromkeys(line.split("|")[1].strip() for line in listed if "|" in line)
        for wanted in [package, *(f"{package}={version}" for version in versions)]:
            words = f"source --download-only -qq {shlex.quote(wanted)}"
            done = self._apt(f"cd {shlex.quote(str(work))}", words)
            found = sorted(work.glob("*.dsc"))
            if done and found:
                return found
            for path in work.iterdir():
                path.unlink()
        raise PlanishError(
            f"the source package {package} cannot be fetched", hint="is the network there?"
        )

    def _prepare(self) -> None:
        if self._ready:
            return
        if shutil.which("apt-get") is None or shutil.which("dpkg-source") is None:
            raise UsageError(
                "a corpus of Debian packages needs apt-get and dpkg-source",
                hint="on Debian: apt-get install dpkg-dev",
            )
        for name in ("lists/partial", "cache/archives/partial", "parts"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        entries = source_entries(
            [path.read_text() for path in sorted(_APT.glob("sources.list.d/*.sources"))],
            [path.read_text() for path in sorted([*_APT.glob("sources.list"),
                                                  *_APT.glob("sources.list.d/*.list")])],
        )  # fmt: skip
        for name, text in entries.items():
            (self._folder / "parts" / name).write_text(text, encoding="utf-8")
        if not self._apt("true", "update -qq"):
            raise PlanishError("apt-get update fails", hint="is the network there?")
        self._ready = True

    def _apt(self, before: str, words: str) -> bool:
        command = f"{before} && apt-get {self._options()} {words}"
        return run_command(command, seconds=_SECONDS).ok

    def _words(self, program: str, words: str) -> list[str]:
        done = run_command(f"{program} {self._options()} {words}", seconds=_SECONDS)
        return done.output.decode(errors="replace").splitlines() if done.ok else []

    def _options(self) -> str:
        folder = self._folder
        return " ".join(
            f"-o {shlex.quote(option)}"
            for option in (
                "Dir::Etc::SourceList=/dev/null",
                f"Dir::Etc::SourceParts={folder}/parts",
                f"Dir::State::Lists={folder}/lists",
                f"Dir::Cache={folder}/cache",
                "APT::Sandbox::User=root",
            )
        )


def source_entries(deb822: list[str], lines: list[str]) -> dict[str, str]:
    """File name to contents: apt's entries of both formats, asking for sources."""
    made = {}
    for at, text in enumerate(deb822):
        made[f"{at}.sources"] = re.sub(r"(?m)^Types:.*$", "Types: deb-src", text)
    found = [line for text in lines for line in text.splitlines() if line.startswith("deb ")]
    if found:
        made["lines.list"] = "".join(f"deb-src {line[4:]}\n" for line in found)
    return made


def _version(description: str) -> str:
    match = re.search(r"(?m)^Version: (\S+)", description)
    return match[1] if match else "unknown"
