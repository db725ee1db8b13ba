from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planish.base.records import Failure
from planish.llvm.frontend import code_generator, compile_baseline, compile_to_bitcode
from planish.llvm.recipe import Recipe
from planish.llvm.requests import Build, Built, Inspect, Job, LibraryInfo, Target
from planish.llvm.toolchain import FrontEnd
from planish.measure.sizes import measure_object
from planish.proc.pool import Call, Pool, Reply

SAMPLE = "sample"  # the key that the fixture `builder_pool` keeps it under
BASELINE = "passes: default<Oz>"
FUNCTIONS = {"checksum", "sort", "lookup", "kind", "dot"}


def _call(text: str, job: Job | None = None, **options: Any) -> Call:
    job = job or Job(SAMPLE)
    recipe = Recipe.parse(text)
    return Call(recipe.options, Build(job, recipe, **options), (job.blob,))


def _reply(pool: Pool, text: str, job: Job | None = None, **options: Any) -> Reply:
    return pool.run([_call(text, job, **options)])[0]


def _build(pool: Pool, text: str, job: Job | None = None, **options: Any) -> Built:
    reply = _reply(pool, text, job, **options)
    assert reply.failure is None, reply.reason
    built: Built = reply.value
    return built


def test_the_library_says_what_it_is(builder_pool: Pool) -> None:
    info = builder_pool.info
    assert isinstance(info, LibraryInfo)
    assert info.version[0] >= 20
    assert "X86" in info.targets or "AArch64" in info.targets


def test_a_module_is_inspected(builder_pool: Pool) -> None:
    first, second = (
        reply.value for reply in builder_pool.run([Call((), Inspect(Job(SAMPLE)), (SAMPLE,))] * 2)
    )
    assert first == second
    assert set(first.functions) == FUNCTIONS | {"clamp"}
    assert first.instructions > 100
    assert "linux" in first.triple or "darwin" in first.triple
    assert first.resized == (), "the front end has marked all functions for size"


# -- builds --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    ["", "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "armv7-unknown-linux-gnueabihf"],
)
def test_the_baseline_pipeline_gives_the_front_ends_own_sizes(
    builder_pool: Pool, front_end: FrontEnd, sample_source: Path, target: str
) -> None:
    flags = [f"--target={target}"] if target else []
    job = Job(f"sample {target}")
    builder_pool.keep(job.blob, compile_to_bitcode(front_end, sample_source, flags))
    built = _build(builder_pool, BASELINE, job)
    own = measure_object(compile_baseline(front_end, sample_source, flags))
    assert built.sections == own.sections
    assert built.size == own.allocated


def test_a_target_that_only_the_front_end_has(
    builder_pool: Pool, front_end: FrontEnd, sample_source: Path
) -> None:
    flags = ["--target=riscv64-unknown-linux-gnu"]
    job = Job("sample riscv64", clang=code_generator(front_end, flags))
    builder_pool.keep(job.blob, compile_to_bitcode(front_end, sample_source, flags))
    built = _build(builder_pool, BASELINE, job, keep=("obj", "asm"))
    own = measure_object(compile_baseline(front_end, sample_source, flags))
    assert measure_object(built.artefacts["obj"]).sections == built.sections == own.sections
    assert b"checksum:" in built.artefacts["asm"]
    assert set(built.functions) == FUNCTIONS
    without = replace(job, clang=())
    reply = _reply(builder_pool, BASELINE, without)
    assert reply.failure is Failure.INVALID
    assert "riscv64" in reply.reason


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (["--target=riscv32-linux-musl"], "-disable-machine-licm -riscv-max-build-ints-cost=1"),
        (["--target=wasm32-wasi"], "-disable-lsr -disable-wasm-fallthrough-return-opt"),
    ],
)
def test_options_of_a_target_that_only_the_front_end_has(
    builder_pool: Pool,
    front_end: FrontEnd,
    sample_source: Path,
    flags: list[str],
    options: str,
) -> None:
    job = Job(f"sample {flags[0]}", clang=code_generator(front_end, flags))
    builder_pool.keep(job.blob, compile_to_bitcode(front_end, sample_source, flags))
    words = [word for option in options.split() for word in ("-mllvm", option)]
    built = _build(builder_pool, f"{BASELINE}\noptions: {options}", job)
    own = measure_object(compile_baseline(front_end, sample_source, [*flags, *words]))
    assert built.sections == own.sections
    # What nobody knows is not passed over in silence, although libLLVM is not asked.
    reply = _reply(builder_pool, f"{BASELINE}\noptions: -riscv-no-such-option", job)
    assert reply.failure is Failure.INVALID


def test_webassembly(builder_pool: Pool, front_end: FrontEnd, sample_source: Path) -> None:
    flags = ["--target=wasm32-unknown-unknown"]
    job = Job("sample wasm32", clang=code_generator(front_end, flags))
    builder_pool.keep(job.blob, compile_to_bitcode(front_end, sample_source, flags))
    built = _build(builder_pool, BASELINE, job)
    assert (
        built.sections == measure_object(compile_baseline(front_end, sample_source, flags)).sections
    )
    assert built.functions == {}


def test_the_same_recipe_gives_the_same_bytes(builder_pool: Pool) -> None:
    text = f"{BASELINE},function(newgvn)\noptions: -disable-lsr\nfunction sort: adce"
    first = _build(builder_pool, text, keep=("obj",))
    _build(builder_pool, "passes: function(sroa)\noptions: -disable-lsr")
    calls = [_call(text, keep=("obj",))] * 4
    for reply in builder_pool.run(calls):
        assert reply.value.artefacts["obj"] == first.artefacts["obj"]
        assert reply.value == first


def test_recipes_matter(builder_pool: Pool) -> None:
    texts = ["", "passes: function(sroa)", BASELINE, f"{BASELINE}\noptions: -disable-lsr"]
    built = [_build(builder_pool, text) for text in texts]
    assert len({b.identity for b in built}) == len(texts)
    assert len({b.size for b in built}) == len(texts)
    assert built[2].size < built[1].size < built[0].size
    assert built[3].instructions == built[2].instructions, "options begin after the passes"


def test_a_known_identity_is_not_generated_again(builder_pool: Pool) -> None:
    built = _build(builder_pool, BASELINE)
    again = _build(builder_pool, BASELINE, known=frozenset({built.identity}))
    assert again.identity == built.identity
    assert not again.sections
    same_module = _build(builder_pool, f"{BASELINE},function(no-op-function)")
    assert same_module.identity == built.identity
    kept = _build(builder_pool, BASELINE, known=frozenset({built.identity}), keep=("obj",))
    assert kept.sections == built.sections
    other = _build(builder_pool, "passes: default<O1>", known=frozenset({built.identity}))
    assert other.sections


def test_without_code_generation_instructions_are_counted(builder_pool: Pool) -> None:
    built = _build(builder_pool, BASELINE, emit=False)
    assert not built.sections
    assert built.instructions == sum(built.counts.values())
    assert built.instructions == _build(builder_pool, BASELINE).instructions


def test_a_suffix_changes_its_function_only(builder_pool: Pool) -> None:
    plain = _build(builder_pool, BASELINE, keep=("obj",))
    changed = _build(builder_pool, f"{BASELINE}\nfunction sort: reg2mem", keep=("obj",))
    assert set(plain.functions) == FUNCTIONS
    assert changed.functions["sort"] > plain.functions["sort"]
    assert changed.absent == ()
    # The padding of the last unwind record depends on what stands before it.
    before, after = (measure_object(b.artefacts["obj"]).functions for b in (plain, changed))
    assert after["sort"] > before["sort"]
    padding = 4
    assert set(after) == set(before)
    assert all(abs(after[n] - before[n]) <= padding for n in before if n != "sort")


def test_a_suffix_everywhere_changes_all(builder_pool: Pool) -> None:
    plain = _build(builder_pool, BASELINE)
    changed = _build(builder_pool, BASELINE, everywhere="reg2mem")
    one_by_one = "".join(f"\nfunction {name}: reg2mem" for name in FUNCTIONS)
    assert changed.functions["sort"] > plain.functions["sort"]
    assert changed.functions == _build(builder_pool, BASELINE + one_by_one).functions


def test_a_suffix_for_a_function_that_is_gone_is_reported(builder_pool: Pool) -> None:
    built = _build(builder_pool, f"{BASELINE}\nfunction clamp: sroa\nfunction nobody: sroa")
    assert built.absent == ("clamp", "nobody"), "inlined, and never there"
    assert built.size == _build(builder_pool, BASELINE).size


def test_what_is_kept_is_sent_back(builder_pool: Pool) -> None:
    built = _build(builder_pool, BASELINE, keep=("obj", "asm", "bc", "ll"))
    artefacts = built.artefacts
    assert set(artefacts) == {"obj", "asm", "bc", "ll"}
    assert measure_object(artefacts["obj"]).sections == built.sections
    assert b"checksum:" in artefacts["asm"]
    assert artefacts["bc"].startswith(b"BC\xc0\xde")
    assert b"@checksum(" in artefacts["ll"]
    assert _build(builder_pool, BASELINE).artefacts == {}


def test_textual_ir_and_bitcode_give_the_same(builder_pool: Pool) -> None:
    text = _build(builder_pool, "", keep=("ll",)).artefacts["ll"]
    builder_pool.keep("sample.ll", text)
    job = Job("sample.ll")
    assert _build(builder_pool, BASELINE, job).sections == _build(builder_pool, BASELINE).sections


def test_functions_are_marked_for_size(
    builder_pool: Pool, front_end: FrontEnd, tmp_path: Path
) -> None:
    ll = tmp_path / "plain.ll"
    ll.write_text(
        f'target triple = "{builder_pool.info.default_triple}"\n'
        "define i32 @f(i32 %x) noinline optnone { %y = mul i32 %x, 1\n ret i32 %y }\n"
    )
    builder_pool.keep("plain", ll.read_bytes())
    (reply,) = builder_pool.run([Call((), Inspect(Job("plain")), ("plain",))])
    assert reply.value.resized == ("f",)
    marked = _build(builder_pool, "passes: function(instsimplify)", Job("plain"), keep=("ll",))
    assert b"minsize" in marked.artefacts["ll"] and b"optnone" not in marked.artefacts["ll"]
    assert marked.instructions == 1
    as_it_is = Job("plain", for_size=False)
    assert _build(builder_pool, "passes: function(instsimplify)", as_it_is).instructions == 2


def test_the_target_machine_is_the_jobs(builder_pool: Pool) -> None:
    plain = _build(builder_pool, BASELINE, keep=("asm",))
    if not builder_pool.info.default_triple.startswith("x86_64"):
        pytest.skip("names an x86 processor")
    job = Job(SAMPLE, Target(cpu="haswell", features="+bmi2"))
    assert _build(builder_pool, "", job, keep=("asm",)).artefacts["asm"] != plain.artefacts["asm"]
    reply = _reply(builder_pool, BASELINE, Job(SAMPLE, Target(triple="pdp11-unknown-none")))
    assert reply.failure is Failure.INVALID
    assert "pdp11" in reply.reason


# -- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "failure", "words"),
    [
        ("passes: nonsense", Failure.INVALID, "unknown module pass 'nonsense'"),
        ("passes: default<O9>", Failure.INVALID, "invalid optimization level 'O9'"),
        (f"{BASELINE}\nfunction sort: nonsense", Failure.INVALID, "nonsense"),
        ("options: -no-such-option", Failure.INVALID, "-no-such-option"),
        ("passes: trigger-verifier-error", Failure.INVALID, "the verifier refuses the result"),
        ("passes: function(loop(licm))", Failure.CRASH, "LICM requires MemorySSA"),
        ("passes: trigger-crash-module", Failure.CRASH, "SIG"),
        (f"{BASELINE}\nfunction sort: trigger-crash-function", Failure.CRASH, "SIG"),
    ],
)
def test_a_bad_recipe_is_a_failure_and_the_pool_goes_on(
    builder_pool: Pool, text: str, failure: Failure, words: str
) -> None:
    good, bad, after = builder_pool.run([_call(BASELINE), _call(text), _call(BASELINE)])
    assert good.value.size == after.value.size > 0
    assert bad.failure is failure
    assert words in bad.reason
    assert "\n" not in bad.reason


@pytest.mark.parametrize("data", [b"", b"junk", b"BC\xc0\xde", b"BC\xc0\xde" + b"\0" * 64])
def test_a_module_that_does_not_parse(builder_pool: Pool, data: bytes) -> None:
    key = f"junk {data!r}"
    builder_pool.keep(key, data)
    reply = _reply(builder_pool, BASELINE, Job(key))
    if data:
        assert reply.failure in (Failure.INVALID, Failure.CRASH)
    assert _build(builder_pool, BASELINE).size > 0


def test_a_sheltered_function_is_left_alone_and_others_are_not(builder_pool: Pool) -> None:
    """`@baseline`: no pass of the recipe counts for it, and no attribute of the shelter stays."""
    plain = _build(builder_pool, "function sort: @baseline", emit=False, keep=("ll",))
    other = _build(
        builder_pool, f"{BASELINE},strip\nfunction sort: @baseline", emit=False, keep=("ll",)
    )
    assert plain.counts["sort"] == other.counts["sort"]
    assert plain.counts["lookup"] > other.counts["lookup"]
    assert b"optnone" not in other.artefacts["ll"]
