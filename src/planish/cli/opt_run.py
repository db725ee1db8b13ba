"""The sources of one `planish opt`, one after another: results, files, lockfile, messages."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from planish.base.errors import PlanishError, UsageError
from planish.base.files import check_writable, write_atomic
from planish.base.progress import Progress, Silent
from planish.cli.report import report, show_replays
from planish.llvm.frontend import SOURCE_SUFFIXES
from planish.store import lockfile
from planish.tune.replay import replay
from planish.tune.result import Result, lock_name
from planish.tune.session import Options, Session
from planish.tune.source import Request

# A source and where its output goes.
OneJob = tuple[Path, Path]


class Run:
    """A source that fails is reported and does not stop the others."""

    def __init__(
        self,
        session: Session,
        request: Request,
        options: Options,
        lock: Path,
        *,
        test: str = "",
        write_lock: bool = True,
    ) -> None:
        self._session, self._request, self._options = session, request, options
        self._lock, self._test, self._write_lock = lock, test, write_lock
        self._results: list[Result] = []
        self._written: list[str] = []
        self.failed = False
        self.interrupted = False

    def search(self, jobs: Sequence[OneJob]) -> None:
        """Optimise each source; what is finished is kept, whatever happens later."""
        lockfile.load(self._lock)  # a damaged one is found out before the search, not after it
        for output in (
            *(output for _, output in jobs),
            *([self._lock] if self._write_lock else []),
        ):
            check_writable(output)
        for source, output in jobs:
            try:
                self._keep(self._optimise(source, output), output)
            except PlanishError as error:
                self._fail(error)
            if self.interrupted:
                return

    def replay(self, jobs: Sequence[OneJob], *, locked: bool, kept: bool) -> None:
        """Build each source by the lockfile; `kept`: what was built before may be taken."""
        lock = lockfile.load(self._lock)
        for _, output in jobs:
            check_writable(output)
        results = replay(
            self._session, [source for source, _ in jobs], self._request, self._options,
            lock, self._lock.parent, locked=locked, kept=kept,
        )  # fmt: skip
        for result, (_, output) in zip(results, jobs, strict=True):
            try:
                if isinstance(result, PlanishError):
                    raise result
                self._keep(result, output)
            except PlanishError as error:
                self._fail(error)

    def show(self, *, as_json: bool, details: bool, clang_flags: bool) -> None:
        """Print what was found."""
        if self._results and self._results[0].ledger.policy == "replay" and not as_json:
            show_replays(self._results)
        elif as_json or self._results:
            self._show_search(as_json, details)
        if clang_flags:
            from planish.tune.clang import replay_script

            for result in self._results:
                print(replay_script(result))

    def _show_search(self, as_json: bool, details: bool) -> None:
        # Tables take a while to import, which a replay has not got.
        from planish.cli.show import show_json, show_results

        if as_json:
            show_json(self._results, self._written)
        else:
            show_results(self._results, self._written, details=details)

    def _optimise(self, source: Path, output: Path) -> Result:
        from planish.tune.passes import optimise

        options = self._options
        if self._test:
            options = replace(options, check=_tester(self._test, output))
        name = lock_name(source, self._lock.parent)
        entries = lockfile.load(self._lock).of(name, options.goal)
        return optimise(self._session, source, self._request, options, entries)

    def _keep(self, result: Result, output: Path) -> None:
        result.save(output)
        self._written.append(str(output))
        if self._write_lock:
            lockfile.update(self._lock, [result.entry(self._lock.parent)])
            if str(self._lock) not in self._written:
                self._written.append(str(self._lock))
        self._results.append(result)
        self.interrupted = result.interrupted

    def _fail(self, error: PlanishError) -> None:
        report(error)
        self.failed = True


def find_jobs(sources: Sequence[Path], output: Path | None, emit: str) -> list[OneJob]:
    """Each source with the path of its output; raises UsageError when two would collide."""
    found = _expand(sources)
    suffix = {"obj": ".o", "bc": ".bc", "ll": ".ll", "asm": ".s"}[emit]
    if output is not None and len(found) == 1 and not output.is_dir():
        jobs = [(found[0][0], output)]
    elif output is not None and output.exists() and not output.is_dir():
        raise UsageError(
            f"-o {output} is a file, and there are {len(found)} sources", hint="name a folder"
        )
    else:
        folder = output or Path()
        jobs = [(source, folder / below.with_suffix(suffix)) for source, below in found]
    taken: dict[Path, Path] = {}
    for source, path in jobs:
        if path.resolve() == source.resolve():
            raise UsageError(f"{source} would be overwritten", hint="choose an output with -o")
        if path in taken:
            raise UsageError(
                f"{taken[path]} and {source} would both be written to {path}",
                hint="name a folder that holds both",
            )
        taken[path] = source
    return jobs


def live_display(*, quiet: bool) -> AbstractContextManager[Progress]:
    """The progress line where somebody may look at it; else nothing, and nothing is imported."""
    if quiet or not sys.stderr.isatty():
        return nullcontext(Silent())
    from planish.cli.show import Live

    return Live()


def _expand(sources: Sequence[Path]) -> list[tuple[Path, Path]]:
    """(file, its path below the folder that was named), folders searched for sources, sorted."""
    found: list[tuple[Path, Path]] = []
    for source in sources:
        if not source.is_dir():
            found.append((source, Path(source.name)))
            continue
        files = [p for p in sorted(source.rglob("*")) if p.suffix in SOURCE_SUFFIXES]
        if not files:
            raise UsageError(f"no source below {source}", hint="C, C++, .ll and .bc are sources")
        found += [(path, path.relative_to(source)) for path in files if path.is_file()]
    return found


def _tester(test: str, output: Path) -> Callable[[bytes], bool]:
    """Put a candidate at the output path and run the user's command on it."""

    from planish.proc.command import run_command

    def check(artefact: bytes) -> bool:
        write_atomic(output, artefact)
        return run_command(test.replace("{}", shlex.quote(str(output)))).ok

    return check
