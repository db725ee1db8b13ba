"""Nests as a cursor's routes, drawn and changed ones, and the network that proposes them."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from planish.base.errors import UsageError
from planish.base.records import Measurement, Outcome
from planish.measure.machine import processor
from planish.model.mlp import Mlp, save
from planish.search.priority import priority_samples
from planish.search.protocol import Plan
from planish.tensor.program import Program, lower
from planish.tune.cursor_draws import change_nests, draw_nests
from planish.tune.cursor_limits import CursorLimits
from planish.tune.cursor_policy import CursorDecoder, load_network, network_plans
from planish.tune.cursor_route import route
from planish.tune.cursor_space import ACTIONS, CursorSpace, Loop, begin, of_cursor
from planish.tune.cursor_view import FEATURES, MOST_LOOPS, CursorView
from planish.tune.kernel_policies import DEFAULT, POLICIES, make_policy
from planish.tune.kernel_training import conv, matmul, softmax, training_examples
from planish.tune.nest_policy import NestPolicy
from planish.tune.schedule_space import AllSchedules
from planish.tune.stage_shape import Target

TARGET = Target.of(processor(), 32)


def programs() -> list[Program]:
    made = [example.program for example in training_examples(10, seed=3)]
    return [*made, lower([conv(7, 3, 8, 3, 2, channels_first=True)])]


def network(seed: int = 0) -> Mlp:
    draw = np.random.default_rng(seed)
    shapes = ((16, len(FEATURES)), (len(ACTIONS) + 1, 16))
    weights = tuple(draw.normal(size=shape).astype(np.float32) * 0.3 for shape in shapes)
    return Mlp(weights, tuple(np.zeros(len(w), np.float32) for w in weights), "tanh", {})


def test_a_route_leads_to_its_nest() -> None:
    """The property: what is drawn or changed is reached loop by loop, or refused."""
    draw = random.Random(0)
    reached = 0
    for program in programs():
        space = CursorSpace(program)
        nests = draw_nests(program, draw)
        for _ in range(30):
            try:
                actions = route(nests, program)
            except UsageError:
                nests = draw_nests(program, draw)
                continue
            state = space.state(actions)
            assert state is not None and set(actions) <= set(ACTIONS)
            assert tuple(loops for _, loops in state.stages) == nests
            reached += 1
            nests = change_nests(nests, draw, program.stages)
    assert reached > 150


def test_a_nest_that_no_actions_make_is_refused() -> None:
    program = lower([matmul(8, 40, 10)])
    good = (Loop("m", 1), Loop("n", 8), Loop("k", 1), Loop("n", 1, "vector"))
    assert route([good], program)[0] == "down"
    for bad in (
        (Loop("m", 1), Loop("n", 3), Loop("k", 1), Loop("n", 1)),  # no power of two
        (Loop("m", 1), Loop("n", 64), Loop("k", 1), Loop("n", 1)),  # larger than the axis
        (Loop("m", 1), Loop("n", 1), Loop("k", 1), Loop("n", 8)),  # the block inside its points
        (Loop("m", 1), Loop("n", 1)),  # an axis is missing
    ):
        with pytest.raises(UsageError):
            route([bad], program)


def test_the_view_shows_the_stage_under_the_cursor_first() -> None:
    program = lower([softmax(6, 40)])
    space, view = CursorSpace(program), CursorView(program, TARGET)
    names = dict(zip(FEATURES, view(begin(program)), strict=True))
    assert names["loop 0: cursor"] == 1 and names["loop 0: log size"] == pytest.approx(np.log2(6))
    first = len(begin(program).stages[0][1])
    state = space.state(("down",) * first)
    assert state is not None and state.cursor == first
    later = view(state).reshape(MOST_LOOPS, -1)
    assert later[0, 0] == 1 and later[:, 0].sum() == 1
    shown = view(begin(program)).reshape(MOST_LOOPS, -1)
    assert np.array_equal(later[: MOST_LOOPS - first, 1:], shown[first:, 1:])


def test_samples_of_a_network_end_and_never_come_back_to_a_state() -> None:
    program = lower([matmul(12, 40, 10)])
    decoder = CursorDecoder(network(), CursorSpace(program), TARGET)
    for sample in islice(priority_samples(decoder), 20):
        states = [decoder.state(sample.tokens[:at]) for at in range(len(sample.tokens) + 1)]
        assert len(set(states)) == len(states)
    plans = list(islice(network_plans(network(), CursorSpace(program), TARGET), 12))
    again = list(islice(network_plans(network(), CursorSpace(program), TARGET), 12))
    space = CursorSpace(program)
    assert plans == again and all(space.legal(plan.actions) for plan in plans)
    states = [space.state(plan.actions) for plan in plans]
    assert len({state.stages for state in states if state is not None}) == len(plans)


def test_a_network_of_other_features_is_refused(tmp_path: Path) -> None:
    save(network(), tmp_path / "good.safetensors")
    assert load_network(tmp_path / "good.safetensors").activation == "tanh"
    other = Mlp((np.zeros((3, 5), np.float32),), (np.zeros(3, np.float32),), "relu", {})
    save(other, tmp_path / "other.safetensors")
    with pytest.raises(UsageError, match="other features or actions"):
        load_network(tmp_path / "other.safetensors")


def test_the_shipped_network_says_what_it_was_trained_on() -> None:
    card = load_network().card
    assert card["algorithm"] == "ppo" and card["held out"] >= 40 and card["trials"]


def value(plan: Plan) -> float:
    return 1.0 + (sum(map(len, plan.actions)) * 37 % 101) / 100


@pytest.mark.skipif(processor().vector < 32, reason="not an x86 machine with AVX2")
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_suggests_schedules_hears_of_all_and_repeats(name: str) -> None:
    program = lower([matmul(48, 40, 24)])
    runs = []
    for _ in range(2):
        space = AllSchedules(program, TARGET)
        policy = make_policy(name, space, 1)
        policy.observe(space.start, Outcome("", Measurement(1.5, "s", {})))
        asked: list[Plan] = []
        while len(asked) < 60 and (plans := policy.suggest(8)):
            for plan in plans:
                assert space.schedule(plan.actions) is not None
                policy.observe(plan, Outcome(str(plan), Measurement(value(plan), "s", {})))
            asked += plans
        assert len(set(asked)) >= 15
        runs.append(asked)
    assert runs[0] == runs[1]


def test_nests_are_changed_from_the_fastest_observed() -> None:
    space = CursorSpace(lower([matmul(48, 40, 24)]))
    first = NestPolicy(space, TARGET, 0, 12)
    drawn = [plan for _ in range(3) for plan in first.suggest(4)]
    policy = NestPolicy(space, TARGET, 0, 0)
    for plan in drawn[:4]:
        policy.observe(plan, Outcome(str(plan), Measurement(value(plan), "s", {})))
    policy.observe(Plan(("C rows=4",)), Outcome("", Measurement(0.1, "s", {})))
    plans = policy.suggest(10)
    assert plans and not set(plans) & set(drawn[:4])


def limits_of(program: Program, *actions: str) -> bool:
    state = CursorSpace(program).state(actions)
    assert state is not None
    return CursorLimits(program, TARGET)(state)


def test_vectors_lie_where_nothing_is_gathered() -> None:
    plain = lower([matmul(16, 40, 16)])
    assert limits_of(plain, "down", "swap_down", "vectorise"), "along n"
    assert not limits_of(plain, "down", "down", "vectorise"), "along k, B is gathered"
    assert not limits_of(plain), "no vectors at all"
    transposed = lower([matmul(16, 40, 16, transposed=True)])
    assert limits_of(transposed, "down", "down", "vectorise"), "along k, both lie side by side"
    assert not limits_of(transposed, "down", "swap_down", "vectorise")


def test_without_an_axis_for_vectors_anything_may_do() -> None:
    strided = lower([conv(3, 3, 3, 3, 2, channels_first=True)])
    assert limits_of(strided)


def test_a_tile_that_fills_the_registers_is_refused() -> None:
    program = lower([matmul(64, 64, 16)])
    tile = [(Loop("m", 16), Loop("k", 1), Loop("m", 1, "unroll"), Loop("n", 1, "vector"))]
    assert not limits_of(program, *route(tile, program)), "16 rows of 8 vectors"
    small = [(Loop("m", 4), Loop("n", 8), Loop("k", 1), Loop("m", 1, "unroll"),
              Loop("n", 1, "vector"))]  # fmt: skip
    assert limits_of(program, *route(small, program))


def test_the_default_policy_tries_what_may_be_computed_together() -> None:
    space = AllSchedules(lower([softmax(6, 40)]), TARGET)
    assert space.choices.fused
    policy = make_policy(DEFAULT, space, 0)
    policy.observe(space.start, Outcome("", Measurement(1.0, "s", {})))
    asked: set[Plan] = set()
    for _ in range(4 * len(space.choices.fused)):
        for plan in policy.suggest(4):
            policy.observe(plan, Outcome(str(plan), Measurement(2.0, "s", {})))
            asked.add(plan)
    assert asked >= set(space.choices.fused)
    assert any(of_cursor(plan.actions) for plan in asked)


def test_a_network_that_knows_nothing_of_a_program_ends() -> None:
    """Of several statements hardly a walk at random is worth a build; it must not go on forever."""
    blank = Mlp(tuple(0 * w for w in network().weights), network().biases, "tanh", {})
    space = CursorSpace(lower([softmax(6, 40)]))
    assert len(list(islice(network_plans(blank, space, TARGET), 500))) < 500


def test_a_nest_of_its_own_is_told_in_one_line() -> None:
    from planish.cli.tune_kernel import _changed
    from planish.tune.loops import Tuned, TunedLedger

    program = lower([matmul(16, 40, 16)])
    ledger = TunedLedger(1, 0, 1.0, {}, "guided", 0, ())
    schedule = CursorSpace(program).schedule(("down", "swap_down", "vectorise"))
    assert schedule is not None
    for changes, words in (
        (("down", "swap_down", "vectorise"), "a nest of its own, 3 steps"),
        (("C rows=4",), "changed: C rows=4"),
        ((), "nothing"),
    ):
        found = Tuned(program, schedule, 1.0, 1.0, (1.0, 1.0, 1.0), changes, ledger)
        assert words in _changed(found)
