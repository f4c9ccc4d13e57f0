"""The engine of the playground computes what lnlab's modules and torch's optimizers compute."""

import json

import pytest
import torch
from torch.nn import functional as F

from lnlab.live.bundle import HERE, module
from lnlab.live.examples import Uniform
from lnlab.live.replay import BatchOrder, examples, network

pytestmark = pytest.mark.browser

NORMS = ("none", "batch", "layer", "rms", "weight")
OPTIMIZERS = {
    "sgd": {"optimizer": "sgd", "rate": 0.01, "momentum": 0, "decay": 0},
    "momentum": {"optimizer": "sgd", "rate": 0.02, "momentum": 0.9, "decay": 1e-3},
    "adam": {"optimizer": "adam", "rate": 0.003, "momentum": 0, "decay": 0},
}
DEFAULTS = {
    name: field["default"]
    for name, field in json.loads((HERE / "state.json").read_text(encoding="utf-8")).items()
}
TOLERANCE = 1e-9
"""Sums are taken in another order. The rounding of the first updates grows along the others: to
1e-13 at most of these rates, to more than 1e-9 at rates at which training is unstable."""


@pytest.fixture(scope="module")
def page(browser):
    """A page that has the engine as ``window.engine``."""
    page = browser.new_page()
    names = "Uniform, Run, examples, read"
    page.add_script_tag(content=f"{module()}\nwindow.engine = {{ {names} }};", type="module")
    page.wait_for_function("window.engine")
    yield page
    page.close()


TRAIN = """([state, changes, updates]) => {
  const run = new engine.Run(engine.read(state).state);
  const losses = [];
  for (let update = 0; update < updates; update++) {
    for (const [at, settings] of changes) if (at === update) run.set(settings);
    losses.push(run.step().map((seeds) => seeds[0]));
  }
  const of = (network) => network.layers.map(({ W, b, g, runningMean, runningVar }) => ({
    W: [...W.value], b: [...b.value], g: [...g.value], dW: [...W.grad],
    mean: [...runningMean], variance: [...runningVar],
  }));
  return { losses, layers: run.networks.map((networks) => of(networks[0])) };
}"""


def train(state, changes, updates):
    """The same with lnlab's modules: losses and, of each normalizer, the network."""
    x, y = examples(state["dataset"])
    losses, nets = [], []
    for norm in state["norms"]:
        now, net, batches = dict(state), network(state, norm, 0), BatchOrder(len(x), 0)
        sgd = state["optimizer"] == "sgd"
        maker = torch.optim.SGD if sgd else torch.optim.Adam
        momentum = {"momentum": state["momentum"]} if sgd else {}
        optimizer = maker(
            net.parameters(), lr=state["rate"], weight_decay=state["decay"], **momentum
        )
        values = []
        for update in range(updates):
            for _, settings in (change for change in changes if change[0] == update):
                now |= settings
            net.train(now["mode"] == "training")
            batch = batches.take(now["batch"])
            loss = F.cross_entropy(net(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            values.append(loss.item())
        losses.append(values)
        nets.append(net)
    return [list(row) for row in zip(*losses, strict=True)], nets


def largest_difference(engine, nets):
    """Over weights that have a gradient, gains, biases and running statistics."""
    largest = 0.0
    for layers, net in zip(engine, nets, strict=True):
        for ours, theirs in zip(layers, list(net)[::2], strict=True):
            pairs = [(ours["W"], theirs.W), (ours["dW"], theirs.W.grad)]
            bias = theirs.norm.b if ours["g"] else theirs.b_inside
            if bias is not None:
                pairs.append((ours["b"], bias))
            if ours["g"]:
                pairs.append((ours["g"], theirs.norm.g))
            if hasattr(theirs.norm, "running_var"):
                pairs.append((ours["mean"], theirs.norm.running_mean))
                pairs.append((ours["variance"], theirs.norm.running_var))
            for a, b in pairs:
                difference = (torch.tensor(a).view_as(b) - b.detach()).abs()
                if b is theirs.W:
                    # batch norm takes out what the constant input adds: the gradient of its
                    # weights is rounding, which Adam divides by its own size
                    difference[theirs.W.grad.abs() < 1e-12] = 0
                largest = max(largest, difference.max().item())
    return largest


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(
    ("dataset", "depth"), [("spirals", 1), ("spirals", 2), ("spirals", 4), ("digits", 2)]
)
def test_losses_and_weights_are_those_of_torch(page, optimizer, dataset, depth):
    setting = {"dataset": dataset, "activation": "relu" if dataset == "digits" else "tanh"}
    for norms in (NORMS[:3], NORMS[2:]):
        state = DEFAULTS | OPTIMIZERS[optimizer] | setting
        state |= {"norms": list(norms), "depth": depth, "seeds": 1, "layer": 1}
        # batch norm's other mode for a while: running statistics are used, and then move on
        changes = [[20, {"mode": "evaluation"}], [40, {"mode": "training"}]]
        found = page.evaluate(TRAIN, [state, changes, 100])
        losses, nets = train(state, changes, 100)
        difference = (torch.tensor(found["losses"]) - torch.tensor(losses)).abs().max().item()
        weights = largest_difference(found["layers"], nets)
        print(f"largest difference: losses {difference:.1e}, weights {weights:.1e}")
        assert difference < TOLERANCE
        assert weights < TOLERANCE
        assert losses[-1] != losses[0]


def test_python_repeats_the_random_numbers(page):
    script = """(seed) => {
      const random = new engine.Uniform(seed);
      return Array.from({ length: 9 }, () => random.next());
    }"""
    for seed in (0, 1, 2**32 - 1):
        uniform = Uniform(seed)
        assert page.evaluate(script, seed) == [uniform() for _ in range(9)]


@pytest.mark.parametrize("dataset", ["spirals", "circles", "xor", "digits"])
def test_python_has_the_same_examples(page, dataset):
    found = page.evaluate(
        "(name) => { const d = engine.examples(name); return [[...d.x], [...d.y], d.train]; }",
        dataset,
    )
    x, y = examples(dataset)
    assert found[2] == len(x)
    assert found[0][: x.numel()] == x.flatten().tolist()
    assert found[1][: len(y)] == y.tolist()
