"""Networks as ONNX graphs, and their results computed by onnxruntime."""

import networks
import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper


class Graph:
    """ONNX graph, built node by node. All parameters are inputs, so that the graph is small and a test can change
    them."""

    def __init__(self, network: networks.Network, batch: int, rules: networks.Rules):
        self._network, self._batch, self._rules = network, batch, rules
        self._nodes, self._constants = [], []
        self._inputs = [helper.make_tensor_value_info("images", TensorProto.FLOAT, (batch, *network.input))]
        self._made = {-1: "images"}
        for i, layer in enumerate(network.layers):
            self._made[i] = getattr(self, f"_{layer.kind}")(i, layer, [self._made[source] for source in layer.sources])

    def model(self):
        outputs = [
            helper.make_tensor_value_info(self._made[i], TensorProto.FLOAT, (self._batch, *self._network.shape(i)))
            for i in self._network.leaving
        ]
        graph = helper.make_graph(self._nodes, "network", self._inputs, outputs, self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def _node(self, kind: str, *inputs: str, **attributes) -> str:
        name = f"made {len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def _constant(self, values: list[int] | list[float]) -> str:
        name = f"constant {len(self._constants)}"
        type_ = TensorProto.INT64 if isinstance(values[0], int) else TensorProto.FLOAT
        self._constants.append(helper.make_tensor(name, type_, [len(values)], values))
        return name

    def _parameter(self, layer: int, what: str, *shape: int) -> str:
        name = f"{layer} {what}"
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def _activated(self, value: str, activation: str) -> str:
        if activation == "leaky":
            return self._node("LeakyRelu", value, alpha=self._rules.leak)
        return (
            value if activation == "linear" else self._node({"relu": "Relu", "logistic": "Sigmoid"}[activation], value)
        )

    def _shaped(self, value: str, *shape: int) -> str:
        return self._node("Reshape", value, self._constant([self._batch, *shape]))

    def _cut(self, value: str, axis: int, first: int, end: int, step: int = 1) -> str:
        return self._node("Slice", value, *(self._constant([number]) for number in (first, end, axis, step)))

    def _convolutional(self, i: int, layer: networks.Layer, inputs: list[str]) -> str:
        size, stride, before, after = layer.window
        channels = self._network.shape(i - 1)[0]
        weights = self._parameter(i, "weights", layer.channels, channels, size, size)
        biases = self._parameter(i, "biases", layer.channels)
        attributes = {"strides": [stride, stride], "pads": [before, before, after, after]}
        if not layer.normalized:
            made = self._node("Conv", *inputs, weights, biases, **attributes)
        else:
            made = self._normalized(i, layer, self._node("Conv", *inputs, weights, **attributes), biases)
        return self._activated(made, layer.activation)

    def _connected(self, i: int, layer: networks.Layer, inputs: list[str]) -> str:
        depth = self._network.depth(i)
        weights = self._parameter(i, "weights", layer.channels, *self._network.shape(i - 1))
        rows = self._node("Reshape", weights, self._constant([layer.channels, depth]))
        biases = self._parameter(i, "biases", layer.channels)
        flat = self._shaped(inputs[0], depth)
        if not layer.normalized:
            made = self._node("Gemm", flat, rows, biases, transB=1)
        else:
            made = self._normalized(i, layer, self._node("Gemm", flat, rows, transB=1), biases)
        return self._shaped(self._activated(made, layer.activation), *layer.shape)

    def _normalized(self, i: int, layer: networks.Layer, value: str, biases: str) -> str:
        scales, means, variances = (
            self._parameter(i, what, layer.channels) for what in ("scales", "means", "variances")
        )
        return self._node("BatchNormalization", value, scales, biases, means, variances, epsilon=self._rules.epsilon)

    def _maxpool(self, i: int, layer: networks.Layer, inputs: list[str]) -> str:
        size, stride, before, after = layer.window
        return self._node(
            "MaxPool", *inputs, kernel_shape=[size, size], strides=[stride, stride], pads=[before, before, after, after]
        )

    def _avgpool(self, i: int, layer: networks.Layer, inputs: list[str]) -> str:
        return self._node("GlobalAveragePool", *inputs)

    def _shortcut(self, i: int, layer: networks.Layer, inputs: list[str]) -> str:
        own, other = inputs
        channels, height, width = self._network.shape(layer.sources[1])
        if (factor := width // layer.width) > 1:
            other = self._cut(self._cut(other, 2, 0, height, factor), 3, 0, width, factor)
        if channels > layer.channels:
            other = self._cut(other, 1, 0, layer.channels)
        elif channels < layer.channels:
            other = self._node("Pad", other, self._constant([0] * 5 + [layer.channels - channels, 0, 0]))
        return self._activated(self._node("Add", own, other), layer.activation)

    def _route(self, i: int, layer: networks.Layer, inputs: list[str]) -> str:
        return self._node("Concat", *inputs, axis=1)

    def _upsample(self, i: int, layer: networks.Layer, inputs: list[str]) -> str:
        factor = float(layer.number("stride", 2))
        scales = self._constant([1.0, 1.0, factor, factor])
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self._node("Resize", *inputs, "", scales, **how)

    def _softmax(self, i: int, layer: networks.Layer, inputs: list[str]) -> str:
        flat = self._shaped(inputs[0], int(numpy.prod(layer.shape)))
        return self._shaped(self._node("Softmax", flat, axis=1), *layer.shape)

    def _yolo(self, i: int, layer: networks.Layer, inputs: list[str]) -> str:
        boxes, numbers_of_a_box = len(layer.options["mask"].split(",")), 5 + layer.number("classes")
        value = self._shaped(inputs[0], boxes, numbers_of_a_box, layer.height * layer.width)
        places, sizes, others = (
            self._cut(value, 2, first, end) for first, end in ((0, 2), (2, 4), (4, numbers_of_a_box))
        )
        places, others = self._node("Sigmoid", places), self._node("Sigmoid", others)
        return self._shaped(self._node("Concat", places, sizes, others, axis=2), *layer.shape)


class Inference:
    """Graph loaded into onnxruntime, which runs it on one core."""

    def __init__(self, network: networks.Network, batch: int, rules: networks.Rules = networks.RIGHT):
        model = Graph(network, batch, rules).model()
        onnx.checker.check_model(model, full_check=True)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self._shape = (batch, *network.input)

    def results(self, images: numpy.ndarray, parameters: dict[str, numpy.ndarray]) -> numpy.ndarray:
        """Returns the results image by image, in the layout that the program uses."""
        parameters = {name: numpy.ascontiguousarray(values) for name, values in parameters.items()}
        made = self._session.run(None, {"images": images.reshape(self._shape), **parameters})
        return numpy.concatenate([values.reshape(len(values), -1) for values in made], axis=1)
