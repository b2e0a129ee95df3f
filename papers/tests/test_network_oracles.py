"""Results of apps/network and apps/network_training for whole networks, compared with onnxruntime and JAX.

Both get the same .cfg and the same numbers from build/host/bin/network-numbers, which runs the programs' own steps
on the emulated device. The tests do not use the programs' parser, plans or kernels.
"""

import concurrent.futures
import contextlib
import importlib
import multiprocessing
import os
import pathlib
import sys

import networks
import numpy
import pytest

ROUNDING = 2.0**-24  # fp32

# Network with features that the five built-in networks lack: even window sizes, paddings, a shortcut with more
# channels, a connected layer on planes.
ODD = """[net]
width=13
height=10
channels=2
[convolutional]
filters=6
size=3
padding=2
[maxpool]
size=3
stride=2
padding=1
[convolutional]
batch_normalize=1
filters=4
size=3
pad=1
activation=relu
[shortcut]
from=-2
activation=logistic
[convolutional]
filters=5
size=2
stride=3
activation=leaky
[maxpool]
size=2
stride=2
padding=2
[connected]
output=7
[upsample]
stride=3
"""


@pytest.fixture(scope="module")
def tool():
    bench = os.environ.get("ISTHMUS_TEST_BENCH")
    if not bench:
        pytest.skip("needs the built program: set ISTHMUS_TEST_BENCH")
    path = pathlib.Path(bench).with_name("network-numbers")
    assert path.exists(), f"{path} is missing: run 'scripts/build --preset host --target network-numbers'"
    return path


@contextlib.contextmanager
def packages():
    """Fails the test if a package that its block imports is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        pytest.fail(f"{error.name} is missing, by which networks are checked: run 'scripts/setup study'")


@pytest.mark.parametrize("package, by", [
    ("onnx", "networks_onnx"), ("onnxruntime", "networks_onnx"), ("jax", "networks_jax")
])  # fmt: skip
def test_what_is_absent_fails(monkeypatch, package, by):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, by, raising=False)
    said = f"^{package} is missing, .*: run 'scripts/setup study'$"
    with pytest.raises(pytest.fail.Exception, match=said), packages():
        importlib.import_module(by)


def rounding(network):
    """Returns the expected relative error of a result from the rounding of all products that it depends on."""
    return ROUNDING * sum(network.depth(layer) for layer in network.weighted) ** 0.5


# --- inference, by onnxruntime ---


@pytest.fixture(scope="module")
def inference():
    with packages():
        return importlib.import_module("networks_onnx").Inference


def comparable(network, results):
    """Returns results with a final softmax replaced by its logarithm, because otherwise only its largest number would
    matter."""
    values = results.astype(float)
    if network.layers[-1].kind == "softmax":
        last = slice(-int(numpy.prod(network.layers[-1].shape)), None)
        values[:, last] = numpy.log(numpy.maximum(values[:, last], 1e-30))
    return values


def error(network, results, right):
    """Returns the largest difference between two results, in units of the bound."""
    results, right = comparable(network, results), comparable(network, right)
    assert results.shape == right.shape
    return float(numpy.abs(results - right).max() / (rounding(network) / 2 * numpy.abs(right).max()))


@pytest.mark.parametrize("name, side, batch", [
    ("sample", 0, 3), ("resnet18", 64, 2), ("resnet50", 64, 2), ("yolov3-tiny", 64, 2), ("yolov3", 64, 2),
    ("resnet18", 0, 1), ("yolov3-tiny", 0, 1),
])  # fmt: skip
def test_a_network_makes_what_onnxruntime_makes_of_it(tool, inference, name, side, batch):
    text = networks.text_of(tool, name)
    made = networks.numbers(tool, text, "infer", side, batch)
    network = networks.Network(text, side)
    given = networks.given(network, made)
    graph = inference(network, batch)
    assert error(network, made["results"], graph.results(made["images"], given)) < 1
    # Changing one weight of millions is detected, and so is changing the slope of leaky.
    layers = network.weighted
    for layer in (layers[0], layers[len(layers) // 2], layers[-1]):
        weights = given[f"{layer} weights"].copy()
        weights[0, 0, weights.shape[2] // 2, weights.shape[3] // 2] += 1
        changed = graph.results(made["images"], given | {f"{layer} weights": weights})
        assert error(network, made["results"], changed) > 3, layer
    steeper = inference(network, batch, networks.Rules(leak=0.101))
    assert error(network, made["results"], steeper.results(made["images"], given)) > 3


def differs(tool, inference, text, instead, rules=networks.RIGHT):
    """Returns the difference between the results of a network and onnxruntime's results for the text `instead`."""
    made = networks.numbers(tool, text, "infer", 0, 2)
    network = networks.Network(instead)
    given = networks.given(network, made)
    return error(network, made["results"], inference(network, 2, rules).results(made["images"], given))


def test_unusual_layers_make_what_onnxruntime_makes_of_them(tool, inference):
    assert differs(tool, inference, ODD, ODD) < 1


@pytest.mark.parametrize("said, instead", [
    ("activation=relu", "activation=leaky"),
    ("activation=logistic", "activation=relu"),
    ("from=0\nactivation=leaky", "from=0"),
    ("from=0", "from=1"),
    ("layers=-1,3", "layers=3,-1"),
    ("size=2\nstride=1", "size=1\nstride=1"),
    ("mask=0,1\nclasses=4", "mask=0\nclasses=13"),
])  # fmt: skip
def test_another_network_makes_something_else(tool, inference, said, instead):
    text = networks.text_of(tool, "sample")
    assert said in text
    assert differs(tool, inference, text, text.replace(said, instead)) > 100


def test_another_epsilon_makes_something_else(tool, inference):
    text = networks.text_of(tool, "sample")
    assert differs(tool, inference, text, text, networks.Rules(epsilon=1e-5)) > 3


# --- training, by JAX ---


def trained(*given):
    return importlib.import_module("networks_jax").train(*given)


@pytest.fixture(scope="module")
def train():
    """Yields a function that trains with JAX in a separate process."""
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process, packages():
        yield lambda *given: process.submit(trained, *given).result()


def worst(network, made, losses, gradients, learned):
    """Returns the largest difference from JAX for each quantity, in units of the bound."""
    bound = 4 * rounding(network)
    before = networks.given(network, made)
    found = {"losses": float(numpy.abs(made["losses"][0] / losses - 1).max() / bound)}

    def add(what, ours, right, size, more=0.0):
        found[what] = max(found.get(what, 0), float((numpy.abs(ours - right) / (bound * size + more)).max()))

    for step, right in enumerate(gradients):
        ours = networks.given(network, made, f"gradients {step} ")
        assert set(ours) == set(right)
        for name, gradient in right.items():
            add(f"gradients of {name.split(' ')[1]}", ours[name], gradient, numpy.abs(gradient).max())
    for name, ours in networks.given(network, made, "learned ").items():
        change = numpy.abs(learned[name] - before[name]).max()
        add(f"learned {name.split(' ')[1]}", ours, learned[name], change, 2 * ROUNDING * numpy.abs(learned[name]))
    return found


def test_training_learns_what_jax_says(tool, train):
    text = networks.text_of(tool, "sample")
    network = networks.Network(text)
    made = networks.numbers(tool, text, "train", 0, 4, 3)
    found = worst(network, made, *train(text, 0, networks.RIGHT, made, 3))
    kinds = ("weights", "biases", "scales")
    assert set(found) == {"losses", *(f"gradients of {kind}" for kind in kinds),
                          *(f"learned {kind}" for kind in (*kinds, "means", "variances"))}  # fmt: skip
    assert max(found.values()) < 1, found
    for wrong, seen_by in (
        ({"leak": 0.101}, "losses"),
        ({"statistics_held_fixed": True}, "gradients of weights"),
        ({"rate": 0.0101}, "learned biases"),
        ({"momentum": 0.91}, "learned scales"),
        ({"decay": 0}, "learned weights"),
        ({"kept": 0.991}, "learned variances"),
    ):
        found = worst(network, made, *train(text, 0, networks.Rules(**wrong), made, 3))
        assert found[seen_by] > 3, (wrong, found)


@pytest.mark.parametrize("name", ["resnet18", "yolov3-tiny"])
def test_a_large_network_learns_what_jax_says(tool, train, name):
    text = networks.text_of(tool, name)
    made = networks.numbers(tool, text, "train", 64, 2, 1)
    found = worst(networks.Network(text, 64), made, *train(text, 64, networks.RIGHT, made, 1))
    assert max(found.values()) < 1, found
