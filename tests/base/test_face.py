"""Names that are both a package and a function of the face."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "code",
    [
        "import planish; planish.tensor('A', (2,))",
        "import planish.tensor.expr as e; import planish; planish.tensor('A', (2,)); e.Axis('m')",
        "import planish; assert callable(planish.verify)",
        "import planish.verify.verify as v; import planish; planish.verify; v.Limits",
        "import planish; planish.measure.compare({'one': int}, seconds=0)",
        "import sys, planish.measure; assert 'planish.measure.timer' not in sys.modules",
    ],
)
def test_packages_and_functions_of_one_name_live_together(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_call_of_the_verify_package_is_the_faces() -> None:
    import planish
    import planish.verify.verify
    from planish.base.errors import PlanishError

    with pytest.raises(PlanishError, match="absent"):
        planish.verify("absent.ll", "absent.ll")


def test_what_the_docs_promise_is_found_from_a_bare_import() -> None:
    """Each name in an interpreter's first breath: nothing else may have imported its room."""
    root = Path(__file__).parents[2]
    pages = [root / "README.md", *sorted((root / "docs").glob("**/*.md"))]
    text = "\n".join(page.read_text() for page in pages)
    names = sorted(set(re.findall(r"\bpl\.([a-z_]+(?:\.[a-z_]+)*)", text)))
    assert "measure.compare" in names and "compile" in names
    # What one name imports must not help the next: each is looked up in a fork of its own.
    code = """
import operator, os, sys
import planish
bad = []
for name in sys.argv[1:]:
    child = os.fork()
    if not child:
        try:
            operator.attrgetter(name)(planish)
        except AttributeError:
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        bad.append(name)
print(*bad)
"""
    found = subprocess.run(
        [sys.executable, "-c", code, *names],
        check=True,
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert found.stdout.split() == []
