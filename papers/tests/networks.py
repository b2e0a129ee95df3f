"""Reader of networks from a .cfg that is independent of this tree's parser, and their results on the emulated
device."""

import dataclasses
import pathlib
import re
import subprocess

import numpy

_LINE = re.compile(r"\[(\w+)\]|(\w+)=(.*)")


@dataclasses.dataclass(frozen=True)
class Rules:
    """Rules of docs/networks.md that a .cfg does not contain. A test changes one to see whether the change is found."""

    leak: float = 0.1
    epsilon: float = 1e-6  # epsilon of batch normalisation
    rate: float = 0.01
    momentum: float = 0.9
    decay: float = 0.0005
    kept: float = 0.99  # share of a running average that an update keeps
    statistics_held_fixed: bool = False  # if true, gradients treat statistics as constants


RIGHT = Rules()


@dataclasses.dataclass
class Layer:
    """Section of the text, and the shape of its output for one image."""

    kind: str
    options: dict[str, str]
    sources: list[int]  # numbers of layers; -1 stands for the images
    channels: int = 0
    height: int = 0
    width: int = 0

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.channels, self.height, self.width

    def number(self, option: str, otherwise: int | None = None) -> int:
        return int(self.options[option] if otherwise is None else self.options.get(option, otherwise))

    @property
    def window(self) -> tuple[int, int, int, int]:
        """Returns size, stride, and the padding before and after."""
        stride = self.number("stride", 1)
        if self.kind == "maxpool":
            size = self.number("size", stride)
            padding = self.number("padding", size - 1)
            return size, stride, padding // 2, padding - padding // 2
        size = self.number("size", 1)
        padding = size // 2 if self.number("pad", 0) else self.number("padding", 0)
        return size, stride, padding, padding

    @property
    def activation(self) -> str:
        return self.options.get("activation", "linear" if self.kind == "shortcut" else "logistic")

    @property
    def normalized(self) -> bool:
        return self.number("batch_normalize", 0) != 0


class Network:
    """Network: its layers in order. If `side` is not 0, it is the width and height of an image."""

    def __init__(self, text: str, side: int = 0):
        sections: list[tuple[str, dict[str, str]]] = []
        for kind, option, value in _LINE.findall(text):
            if kind:
                sections.append((kind, {}))
            else:
                sections[-1][1][option] = value
        (_, net), *rest = sections
        self.input = (int(net["channels"]), side or int(net["height"]), side or int(net["width"]))
        self.layers: list[Layer] = []
        for here, (kind, options) in enumerate(rest):
            named = options.get("layers" if kind == "route" else "from", "")
            sources = [int(n) if int(n) >= 0 else here + int(n) for n in named.split(",") if n]
            layer = Layer(kind, options, sources if kind == "route" else [here - 1, *sources])
            layer.channels, layer.height, layer.width = self._made(layer)
            self.layers.append(layer)

    def shape(self, layer: int) -> tuple[int, int, int]:
        return self.input if layer < 0 else self.layers[layer].shape

    def _made(self, layer: Layer) -> tuple[int, int, int]:
        channels, height, width = self.shape(layer.sources[0])
        if layer.kind in ("convolutional", "maxpool"):
            size, stride, before, after = layer.window
            height, width = ((extent + before + after - size) // stride + 1 for extent in (height, width))
            return layer.number("filters") if layer.kind == "convolutional" else channels, height, width
        if layer.kind == "connected":
            return layer.number("output"), 1, 1
        if layer.kind == "avgpool":
            return channels, 1, 1
        if layer.kind == "route":
            return sum(self.shape(source)[0] for source in layer.sources), height, width
        if layer.kind == "upsample":
            factor = layer.number("stride", 2)
            return channels, factor * height, factor * width
        return channels, height, width

    @property
    def weighted(self) -> list[int]:
        return [i for i, layer in enumerate(self.layers) if layer.kind in ("convolutional", "connected")]

    @property
    def leaving(self) -> list[int]:
        """Returns the numbers of the layers whose output is a result, in ascending order."""
        last = len(self.layers) - 1
        return [i for i, layer in enumerate(self.layers) if layer.kind == "yolo" or i == last]

    def depth(self, layer: int) -> int:
        """Returns the number of products in one output number of a layer with weights."""
        channels, height, width = self.shape(layer - 1)
        size = self.layers[layer].window[0]
        return channels * (height * width if self.layers[layer].kind == "connected" else size * size)

    def weights(self, layer: int, rows: numpy.ndarray) -> numpy.ndarray:
        """Returns weights indexed by output channel, input channel, row and column. Each of `rows` has the places of a
        window one after the other, each with its channels."""
        channels, height, width = self.shape(layer - 1)
        size = self.layers[layer].window[0]
        window = (height, width) if self.layers[layer].kind == "connected" else (size, size)
        return rows[:, : self.depth(layer)].reshape(len(rows), *window, channels).transpose(0, 3, 1, 2)


# --- results of a network on the emulated device ---


def text_of(tool: pathlib.Path, name: str) -> str:
    return subprocess.run([tool, "text", name], capture_output=True, text=True, check=True).stdout


def numbers(tool: pathlib.Path, text: str, *words: object) -> dict[str, numpy.ndarray]:
    """Returns the matrices that tests/apps/network_numbers.cpp writes, keyed by name."""
    with subprocess.Popen([tool, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        running.stdin.write(text.encode())
        running.stdin.close()
        matrices = {}
        while line := running.stdout.readline().decode():
            rows, columns, name = line.rstrip("\n").split(" ", 2)
            shape = int(rows), int(columns)
            matrices[name] = numpy.frombuffer(running.stdout.read(4 * shape[0] * shape[1]), "<f4").reshape(shape)
    if running.returncode:
        raise AssertionError(f"{tool.name} ended with {running.returncode}")
    return matrices


def given(network: Network, matrices: dict[str, numpy.ndarray], prefix: str = "given ") -> dict[str, numpy.ndarray]:
    """Returns the parameters, keyed by name; weights are in the order of their window's rows and columns."""
    found = {}
    for name, values in matrices.items():
        if not name.startswith(prefix):
            continue
        layer, what = name.removeprefix(prefix).split(" ")
        found[f"{int(layer)} {what}"] = network.weights(int(layer), values) if what == "weights" else values[0]
    return found
