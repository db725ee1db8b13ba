"""The verifier that most files share: with the module's own LIMITS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from planish.verify.verify import Verifier


@pytest.fixture(scope="module")
def verifier(request: pytest.FixtureRequest) -> Iterator[Verifier]:
    pytest.importorskip("z3")
    with Verifier(seconds=request.module.LIMITS.seconds) as made:
        yield made
