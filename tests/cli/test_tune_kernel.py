"""`planish tune-kernel` on einsums and on programs of several statements from a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import planish as pl
from planish.base.records import Measurement, Outcome
from planish.cli.main import main
from planish.cli.program_options import load_tensors
from planish.measure.machine import processor
from planish.store.lockfile import load
from planish.store.store import Store
from planish.tensor.program import lower
from planish.tensor.reference import evaluate
from planish.tune.kernel_evaluator import kernel_key
from planish.tune.loop_space import LoopSpace
from planish.tune.stage_shape import Target

BLOCKS = Path(__file__).parents[2] / "examples" / "blocks.py"
native = pytest.mark.skipif(processor().vector < 32, reason="not an x86 machine with AVX2")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANISH_CACHE", str(tmp_path / "cache"))


@native
def test_a_block_from_a_file_is_tuned_and_its_schedule_compiles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "small.py"
    source.write_text(BLOCKS.read_text() + "\nsmall = mlp(8, 16, 32)\n")
    schedule, lock = tmp_path / "s.txt", tmp_path / "planish.lock"
    words = ["tune-kernel", f"{source}:small", "--budget", "4", "--json"]
    main([*words, "-o", str(schedule), "--lock", str(lock)])
    found = json.loads(capsys.readouterr().out)
    assert 1 <= found["measured"] <= 4 and found["schedule"] + "\n" == schedule.read_text()
    assert f"{source}:small" in lock.read_text()
    main(["compile", f"{source}:small", "--schedule", str(schedule), "--json", "--no-run"])
    assert json.loads(capsys.readouterr().out)["schedule"] == found["schedule"]
    main([*words, "--offline"])
    assert json.loads(capsys.readouterr().out)["measured"] == 0


def test_fusion_is_a_choice_in_attention() -> None:
    space = LoopSpace(lower(load_tensors(BLOCKS, "attention")), Target.of(processor(), 32))
    fusions = [action for action in space.all_actions if " fuse=" in action]
    assert fusions and all(space.legal([action]) for action in fusions)


@native
@pytest.mark.parametrize(
    ("block", "action", "words"),
    [
        ("mlp(32, 64, 256)", "hidden fuse=1", "hidden is computed in the loop"),
        ("resnet(6, 16)", "middle epilogue=1", "middle_padded is the epilogue of middle"),
    ],
)
def test_a_fused_block_is_found_told_kept_and_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], block: str, action: str, words: str
) -> None:
    source, lock = tmp_path / "small.py", tmp_path / "planish.lock"
    source.write_text(f"{BLOCKS.read_text()}\nsmall = {block}\n")
    command = ["tune-kernel", f"{source}:small"]
    main([*command, "--budget", "4", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["best_seconds"] <= found["baseline_seconds"]
    [tensor] = load_tensors(source, "small")
    program, vector = lower([tensor]), processor().vector
    schedule = str(LoopSpace(program, Target.of(processor(), vector)).schedule((action,)))
    with Store.open_default() as store:
        # Whether it is faster here is for other machines to say: it shall have been.
        value = found["baseline_seconds"] / 2
        measured = Measurement(value, "s", {}, (value,) * 9, "")
        key = kernel_key(program, vector, False)
        store.put(key, Outcome(schedule, measured, identity=schedule))
    main([*command, "--offline", "--lock", str(lock)])
    told = capsys.readouterr().out
    assert f"fused: {words}" in told and schedule in told
    [entry] = load(lock).entries
    assert entry.recipe == schedule
    kernels = [pl.compile(tensor, schedule=s, store=False) for s in (schedule, entry.recipe)]
    images = [kernel.native().image.to_bytes() for kernel in kernels]
    assert images[0] == images[1]
    numbers = np.random.default_rng(0)
    arrays = {t.name: numbers.integers(-2, 3, t.shape).astype("f4") for t in program.inputs}
    assert np.array_equal(kernels[1](**arrays), evaluate(program, arrays)["y"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["mk,kn->mn"], "needs the lengths"),
        (["mk,kn->mn", "--shape", "m=1"], "k"),
        ([f"{BLOCKS}"], "names no tensor"),
        ([f"{BLOCKS}:mpl"], "mlp"),
        ([f"{BLOCKS}:pl"], "gives no tensors"),
        ([f"{BLOCKS}:mlp", "--shape", "m=1"], "says itself"),
        (["absent.py:mlp"], "absent.py"),
        ([f"{BLOCKS}:mlp", "--policy", "best"], "policy"),
        ([f"{BLOCKS}:mlp", "--workers", "nonsense"], "names no cluster"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["tune-kernel", *words])
    error = capsys.readouterr().err
    assert left.value.code == 2 and told in error and error.count("\n") == 1
