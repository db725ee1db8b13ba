"""The network as it runs: stored values, the same as torch's, and what its file holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.tiny_net import RECIPES, looks, tiny_net

from planish.base.errors import UsageError
from planish.llvm.recipe import Recipe
from planish.model.policy_net import LEAST_NOISE, NetDecoder, load, save


def test_stored_values() -> None:
    net = tiny_net()
    decoder = NetDecoder(net, looks(1))
    logits = decoder.next_logits((2, 3))
    expected = net.expect(looks(1), RECIPES)
    assert np.allclose(logits, _LOGITS, atol=1e-5)
    assert np.allclose(expected.mean, _MEAN, atol=1e-5)
    assert np.allclose(np.sqrt(expected.noise), _SPREAD, atol=1e-5)


_LOGITS = [0.000403, -0.123393, 0.051399, 0.025453, 0.504391, 0.199005, 0.762170]
_MEAN = [0.495043, 0.473400]
_SPREAD = [0.123307, 0.073416]


def test_the_network_is_a_gated_recurrent_one() -> None:
    torch = pytest.importorskip("torch")
    net = tiny_net(3)
    a = {name: torch.as_tensor(array) for name, array in net.arrays.items()}
    cell = torch.nn.GRUCell(5, 5)
    with torch.no_grad():
        cell.weight_ih.copy_(a["gates_in"])
        cell.weight_hh.copy_(a["gates_state"])
        cell.bias_ih.copy_(a["gates_in_bias"])
        cell.bias_hh.copy_(a["gates_state_bias"])
        state = torch.tanh(a["start"] @ torch.as_tensor(net.see(looks(2))) + a["start_bias"])
        for token in (1, 4, 6):
            state = cell(a["token"][token][None], state[None])[0]
        logits = a["next"] @ state + a["next_bias"]
    assert np.allclose(NetDecoder(net, looks(2)).next_logits((1, 4, 6)), logits, atol=1e-5)


def test_what_is_expected_does_not_depend_on_the_company() -> None:
    net = tiny_net()
    unknown = "passes: default<Oz>\noptions: -disable-lsr"
    together = net.expect(looks(1), (*RECIPES, unknown))
    for at, text in enumerate((*RECIPES, unknown)):
        alone = net.expect(looks(1), (text,))
        assert np.isclose(alone.mean[0], together.mean[at])
        assert np.allclose(alone.loading[0], together.loading[at])
        assert alone.noise[0] >= LEAST_NOISE**2
    # Known recipes have corrections of their own; an unknown one must not borrow one.
    net.arrays["known_mean"][:] += 1.0
    moved = net.expect(looks(1), (*RECIPES, unknown)).mean - together.mean
    assert np.allclose(moved, [1.0, 1.0, 0.0], atol=1e-5)


def test_recipes_by_number() -> None:
    net = tiny_net()
    assert net.tokens(Recipe.parse(RECIPES[1])) == (1, 4, 5)
    assert net.tokens(Recipe.parse("passes: globaldce")) is None


def test_the_file_holds_everything(tmp_path: Path) -> None:
    net, path = tiny_net(), tmp_path / "net.safetensors"
    save(net, path)
    again = load(path)
    assert (again.actions, again.recipes, again.card) == (net.actions, net.recipes, net.card)
    assert all(np.array_equal(again.arrays[n], array) for n, array in net.arrays.items())
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UsageError, match="cannot read the model"):
        load(path)
    from safetensors.numpy import save_file

    save_file({"x": np.zeros(1, np.float32)}, str(path))
    with pytest.raises(UsageError, match="another kind of model"):
        load(path)
