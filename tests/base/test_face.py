"""Names that are both a package and a function of the face."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "code",
    [
        "import planish; planish.tensor('A', (2,))",
        "import planish.tensor.expr as e; import planish; planish.tensor('A', (2,)); e.Axis('m')",
        "import planish; assert callable(planish.verify)",
        "import planish.verify.verify as v; import planish; planish.verify; v.Limits",
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
