"""The example program, tuned, still does what it did."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import planish
from planish.llvm.toolchain import FrontEnd

LZSS = Path(__file__).parents[2] / "examples" / "lzss.c"
CC = shutil.which("cc")


@pytest.mark.skipif(CC is None, reason="a linker is needed to run the program")
def test_the_tuned_example_passes_its_own_test(tmp_path: Path, front_end: FrontEnd) -> None:
    result = planish.optimize(LZSS, budget=16, store=False)
    assert result.best < result.baseline
    result.save(tmp_path / "tuned.o")
    outputs = []
    for source in (LZSS, tmp_path / "tuned.o"):
        program = tmp_path / f"{source.stem}.exe"
        subprocess.run([str(CC), "-w", "-o", program, source], check=True)
        outputs.append(subprocess.run([program, "-t"], capture_output=True, check=True).stdout)
    assert outputs[0] == outputs[1]
    assert b"ok" in outputs[0]


def test_the_face_is_light_and_says_what_it_found() -> None:
    result = planish.optimize(LZSS, budget=2, store=False, jobs=1)
    assert "bytes" in str(result)
    assert "<table>" in result._repr_html_()
    with pytest.raises(planish.PlanishError, match="no such file"):
        planish.optimize("nowhere.c")


def test_importing_planish_imports_nothing_heavy() -> None:
    code = (
        "import sys, planish;"
        "heavy = {'rich', 'click', 'elftools', 'numpy', 'torch', 'sqlite3', 'planish.tune'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    import sys

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
