"""Which mutants differ when they are run: a judge apart from the verifier.

A C program, compiled by gcc with inputs of its own, calls all versions of a function and compares
results and memory. For bench/verify_mutants.py.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from pathlib import Path

from planish.llvm.recipe import Recipe
from planish.llvm.requests import Build, Job
from planish.proc.command import run_command
from planish.proc.pool import Call, Pool

_INPUTS = 200
_SECONDS = 10.0
C_TYPES = {"i1": "unsigned char", "i8": "unsigned char", "i16": "unsigned short", "i32": "unsigned",
           "i64": "unsigned long", "ptr": "void *", "void": "void"}  # fmt: skip


def module_of(functions: dict[str, str]) -> str:
    """A module of functions, each under its name."""
    return "\n\n".join(
        ['target triple = "x86_64-unknown-linux-gnu"']
        + [text.replace("@NAME(", f"@{name}(", 1) for name, text in functions.items()]
    )


def that_differ(base: str, mutants: list[str], pool: Pool) -> list[int]:
    """Which mutants give another result or leave other memory than the base, on some input."""
    head = re.match(r"define (\S+) @NAME\(([^)]*)\)", base)
    assert head
    kinds = [kind.split()[0] for kind in head[2].split(", ") if kind]
    names = ["base", *(f"m{at}" for at in range(len(mutants)))]
    text = module_of(dict(zip(names, [base, *mutants], strict=True)))
    pool.keep("mutants", text.encode())
    build = Build(Job("mutants", for_size=False), Recipe(), keep=("obj",))
    [reply] = pool.run([Call((), build, ("mutants",))])
    if reply.failure is not None:  # one of the mutants is no valid IR
        if len(mutants) == 1:
            return []
        return [at for at, one in enumerate(mutants) if that_differ(base, [one], pool)]
    with tempfile.TemporaryDirectory(prefix="planish-mutants-") as name:
        folder = Path(name)
        (folder / "m.o").write_bytes(reply.value.artefacts["obj"])
        (folder / "h.c").write_text(_harness(head[1], kinds, names))
        files = [str(folder / part) for part in ("h.c", "m.o", "h")]
        built = run_command(shlex.join(["gcc", "-O1", "-w", *files[:2], "-o", files[2]]))
        if not built.ok:
            return []
        done = run_command(shlex.quote(files[2]), seconds=_SECONDS)
    words = done.output.decode(errors="replace").split()
    return sorted({int(word[1:]) for word in words if word.startswith("m")})


def _harness(result: str, kinds: list[str], names: list[str]) -> str:
    """C that prints the name of each version that differs from the first on some input.

    An input on which the first faults, or runs for long, shows nothing.
    """
    types = [C_TYPES[kind] for kind in kinds]
    declared = f"{C_TYPES[result]} NAME({', '.join(types) or 'void'});"
    arguments = [
        f"(void *)(zone + 1024 + 512 * {at})" if kind == "ptr" else f"({C_TYPES[kind]})(a[{at}]"
        + (" & 1)" if kind == "i1" else ")")
        for at, kind in enumerate(kinds)
    ]  # fmt: skip
    calls = []
    for at, name in enumerate(names):
        value = f"{name}({', '.join(arguments)})"
        keep = f"{value}; r = 0" if result == "void" else f"r = (unsigned long){value}"
        keep += " & 1" if result == "i1" else ""
        calls.append(f"case {at}: {keep}; break;")
    listed = ", ".join(f'"{name}"' for name in names)
    return f"""#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
{" ".join(declared.replace("NAME", name) for name in names)}
static unsigned char zone[8192], start[8192], left[8192];
static unsigned long a[8], state = 88172645463325252ul;
static sigjmp_buf out;
static void leave(int number) {{ siglongjmp(out, 1); }}
static unsigned long next(void) {{
  state ^= state << 13; state ^= state >> 7; state ^= state << 17; return state;
}}
static int call(int which, unsigned long *result) {{
  volatile unsigned long r = 0;
  struct itimerval timer = {{{{0, 0}}, {{0, 20000}}}}, off = {{{{0, 0}}, {{0, 0}}}};
  memcpy(zone, start, sizeof zone);
  if (sigsetjmp(out, 1)) {{ setitimer(ITIMER_REAL, &off, 0); return 0; }}
  setitimer(ITIMER_REAL, &timer, 0);
  switch (which) {{ {" ".join(calls)} }}
  setitimer(ITIMER_REAL, &off, 0);
  *result = r;
  return 1;
}}
int main(void) {{
  static const char *names[] = {{{listed}}};
  for (int s = 1; s < 32; s++) if (s == SIGSEGV || s == SIGBUS || s == SIGALRM || s == SIGFPE)
    signal(s, leave);
  for (int round = 0; round < {_INPUTS}; round++) {{
    int sparse = next() % 3;
    for (int i = 0; i < 8192; i++)
      start[i] = sparse && next() % 4 ? 0 : next() % (sparse ? 8 : 256);
    for (int i = 0; i < 8; i++)
      a[i] = next() % 3 == 0 ? next() : next() % 3 ? next() % 40 : -(next() % 4);
    unsigned long wanted = 0, got = 0;
    if (!call(0, &wanted)) continue;
    memcpy(left, zone, sizeof zone);
    for (int m = 1; m < {len(names)}; m++)
      if (!call(m, &got) || got != wanted || memcmp(left, zone, sizeof zone)) puts(names[m]);
  }}
}}
"""
