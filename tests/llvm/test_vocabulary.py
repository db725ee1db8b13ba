from __future__ import annotations

from pathlib import Path

import pytest

from planish.base.errors import UsageError
from planish.llvm import vocabulary
from planish.llvm.pipeline import Pipeline, split_pipeline
from planish.llvm.recipe import check_options
from planish.llvm.toolchain import Toolchain
from planish.llvm.vocabulary import Vocabulary
from planish.proc.pool import Pool


@pytest.fixture(scope="module", params=["X86", "AArch64", "ARM", "RISCV", "WebAssembly"])
def shipped(request: pytest.FixtureRequest, toolchain: Toolchain) -> Vocabulary:
    version = (toolchain.version[0], toolchain.version[1], toolchain.version[2])
    return vocabulary.load(toolchain.library, version, request.param)


def test_shipped_vocabularies_belong_to_the_shipped_lists(
    shipped: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(vocabulary.__file__).parent / "data"
    path = folder / f"vocabulary-{shipped.version}-{shipped.architecture}.json"
    assert path.read_text(encoding="utf-8") == vocabulary.to_json(shipped)


def test_every_entry_parses_back(shipped: Vocabulary) -> None:
    for element in (*shipped.module, *shipped.function, *shipped.attributes):
        assert str(Pipeline.parse(element)) == element
    assert all(len(split_pipeline(element)) == 1 for element in shipped.module)
    for option in shipped.options:
        assert check_options([option]) == (option,)
    assert "default<Oz>" in shipped.module
    assert not any("linearize" in option for option in shipped.options)


def test_what_does_not_exist_is_rejected_and_nothing_dies(builder_pool: Pool) -> None:
    passes = {"module": ["globaldce", "no-such-pass"], "function": ["sroa", "nonsense<x>"]}
    options = {"all": ["-disable-lsr", "-no-such-option", "-regalloc=nonsense"]}
    made = vocabulary.generate(builder_pool, "X86", passes, options)
    assert made.module == ("globaldce", "function(sroa)")
    assert made.function == ("sroa",)
    assert made.options == ("-disable-lsr",)
    assert set(made.rejected) == {
        "no-such-pass", "nonsense<x>", "-no-such-option", "-regalloc=nonsense"
    }  # fmt: skip


def test_unknown_names_list_near_matches(shipped: Vocabulary) -> None:
    with pytest.raises(UsageError, match="gvn"):
        vocabulary.check_passes(shipped, "default<Oz>,function(gnv)")
    with pytest.raises(UsageError, match="-disable-lsr"):
        vocabulary.check_options(shipped, ["-disable-lrs"])
    vocabulary.check_passes(shipped, "default<Oz>,function(gvn,loop-mssa(licm)),@no-minsize")
