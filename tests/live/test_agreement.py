"""The playground computes what lnlab and torch compute, by the Python that it gives out."""

import contextlib
import io

import pytest

from lnlab.live.bundle import playground_module_source
from lnlab.live.examples import UniformGenerator
from lnlab.live.replay import training_examples

pytestmark = pytest.mark.browser

NORMS = ("none", "batch", "layer", "rms", "weight")
OPTIMIZERS = {
    "sgd": {"optimizer": "sgd", "rate": 0.01},
    "momentum": {"optimizer": "sgd", "rate": 0.02, "momentum": 0.9, "decay": 1e-3},
    "adam": {"optimizer": "adam", "rate": 0.003},
}
# batch norm's other mode for a while: running statistics are used, and then move on
MODES = [[20, {"mode": "evaluation"}], [40, {"mode": "training"}]]
CHANGES = [
    [20, {"weights": 10}],
    [25, {"layer": 1}],
    [25, {"weights": 0.5}],
    [30, {"batch": 4}],
    [40, {"scale": 3}],
    [45, {"mode": "evaluation"}],
    [45, {"momentum": 0.5}],
]
TOLERANCE = 1e-9
"""Sums are taken in another order. The rounding of the first updates grows along the others: to
1e-13 at most of these rates, to more than 1e-9 at rates at which training is unstable."""


@pytest.fixture(scope="module")
def page(browser):
    """A page that has the engine as ``window.engine``."""
    page = browser.new_page()
    names = "Uniform, Run, examples, read, python"
    page.add_script_tag(
        content=f"{playground_module_source()}\nwindow.engine = {{ {names} }};", type="module"
    )
    page.wait_for_function("window.engine")
    yield page
    page.close()


TRAIN = """([state, changes, updates]) => {
  const run = new engine.Run(engine.read(state).state);
  const losses = [];
  for (let update = 0; update < updates; update++) {
    for (const [at, settings] of changes) if (at === update) run.set(settings);
    losses.push(run.step());
  }
  return [losses, engine.python(run)];
}"""


def check_replay(page, state, changes, updates):
    """The Python that is copied from the playground has the losses of the engine."""
    losses, program = page.evaluate(TRAIN, [state, changes, updates])
    space = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(program, space)
    for i, norm in enumerate(state["norms"]):
        for seed in range(state["seeds"]):
            values = [update[i][seed] for update in losses]
            assert space["losses"][norm, seed] == pytest.approx(values, abs=TOLERANCE)
            assert values[-1] != values[0]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(
    ("dataset", "depth"), [("spirals", 1), ("spirals", 2), ("spirals", 4), ("digits", 2)]
)
def test_losses_are_those_of_torch(page, optimizer, dataset, depth):
    setting = {"dataset": dataset, "activation": "relu" if dataset == "digits" else "tanh"}
    setting |= OPTIMIZERS[optimizer] | {"depth": depth, "layer": 1, "seeds": 1}
    for norms in (NORMS[:3], NORMS[2:]):
        check_replay(page, setting | {"norms": list(norms)}, MODES, 100)


def test_what_is_changed_on_the_way_is_changed_in_python(page):
    state = {"seeds": 2, "weights": 2, "rate": 0.03, "norms": ["none", "batch", "layer"]}
    check_replay(page, state, CHANGES, 60)


def test_python_repeats_the_random_numbers(page):
    script = """(seed) => {
      const random = new engine.Uniform(seed);
      return Array.from({ length: 9 }, () => random.next());
    }"""
    for seed in (0, 1, 2**32 - 1):
        uniform = UniformGenerator(seed)
        assert page.evaluate(script, seed) == [uniform() for _ in range(9)]


@pytest.mark.parametrize("dataset", ["spirals", "circles", "xor", "digits"])
def test_python_has_the_same_examples(page, dataset):
    found = page.evaluate(
        "(name) => { const d = engine.examples(name); return [[...d.x], [...d.y], d.train]; }",
        dataset,
    )
    x, y = training_examples(dataset)
    assert found[2] == len(x)
    assert found[0][: x.numel()] == x.flatten().tolist()
    assert found[1][: len(y)] == y.tolist()
