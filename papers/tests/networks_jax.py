"""Networks as JAX functions in double precision, with gradients and stochastic gradient descent.

This module runs in a separate process, because JAX has threads and other tests fork.
"""

import functools

import jax
import networks
import numpy
from jax import lax
from jax import numpy as jnp

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)


@functools.cache
def _differentiated(text, side):
    """Returns a function that computes loss, statistics of batch normalisation, and gradients. Compiling it takes
    seconds."""
    return jax.jit(jax.value_and_grad(_Network(text, side).loss, has_aux=True))


def train(text: str, side: int, rules: networks.Rules, made: dict[str, numpy.ndarray], steps: int):
    """Returns the losses, the gradients of each step, and the learned parameters after steps with the same images,
    keyed by the names in networks.given()."""
    network = networks.Network(text, side)
    values = {name: value.astype(float) for name, value in networks.given(network, made).items()}
    images, targets = made["images"].astype(float).reshape(-1, *network.input), made["targets"].astype(float)
    velocities = {name: numpy.zeros_like(value) for name, value in values.items()}
    losses, every = [], []
    for _ in range(steps):
        learned = {name: value for name, value in values.items() if not name.endswith(("means", "variances"))}
        (loss, statistics), gradients = _differentiated(text, side)(
            learned, images, targets, rules.leak, rules.epsilon, float(rules.statistics_held_fixed)
        )
        losses.append(float(loss))
        every.append({name: numpy.asarray(gradient) for name, gradient in gradients.items()})
        for name, statistic in statistics.items():
            values[name] = rules.kept * values[name] + (1 - rules.kept) * numpy.asarray(statistic)
        for name, gradient in every[-1].items():
            decay = rules.decay if name.endswith("weights") else 0
            velocities[name] = rules.momentum * velocities[name] + gradient + decay * values[name]
            values[name] = values[name] - rules.rate * velocities[name]
    return losses, every, values


class _Network(networks.Network):
    def loss(self, parameters, images, targets, leak, epsilon, held):
        self._leak, self._epsilon, self._held = leak, epsilon, held
        made, statistics = {-1: images}, {}
        loss, first = 0.0, 0
        for i, layer in enumerate(self.layers):
            inputs = [made[source] for source in layer.sources]
            if i in self.weighted:
                made[i] = self._multiplied(i, layer, inputs[0], parameters, statistics)
            else:
                made[i] = getattr(self, f"_{layer.kind}")(layer, *inputs)
            if i in self.leaving:
                results = made[i].reshape(len(images), -1)
                right = targets[:, first : first + results.shape[1]]
                first += results.shape[1]
                if layer.kind == "softmax":
                    loss -= (right * jnp.log(results)).sum() / len(images)
                else:
                    loss += ((results - right) ** 2).sum() / 2 / results.size
        return loss, statistics

    def _multiplied(self, i, layer, value, parameters, statistics):
        weights = parameters[f"{i} weights"]
        if layer.kind == "connected":
            value = (value.reshape(len(value), -1) @ weights.reshape(len(weights), -1).T)[:, :, None, None]
        else:
            _, stride, before, after = layer.window
            value = lax.conv_general_dilated(value, weights, (stride, stride), [(before, after)] * 2)
        if layer.normalized:
            mean, variance = value.mean((0, 2, 3)), value.var((0, 2, 3))
            statistics |= {f"{i} means": mean, f"{i} variances": variance}
            mean, variance = (
                self._held * lax.stop_gradient(found) + (1 - self._held) * found for found in (mean, variance)
            )
            value = (value - mean[:, None, None]) / jnp.sqrt(variance[:, None, None] + self._epsilon)
            value = value * parameters[f"{i} scales"][:, None, None]
        return self._activated(value + parameters[f"{i} biases"][:, None, None], layer.activation)

    def _activated(self, value, activation):
        if activation == "leaky":
            return jnp.where(value > 0, value, self._leak * value)
        return {"linear": lambda x: x, "relu": jax.nn.relu, "logistic": jax.nn.sigmoid}[activation](value)

    def _maxpool(self, layer, value):
        size, stride, before, after = layer.window
        around = [(0, 0), (0, 0), (before, after), (before, after)]
        return lax.reduce_window(value, -jnp.inf, lax.max, (1, 1, size, size), (1, 1, stride, stride), around)

    def _avgpool(self, layer, value):
        return value.mean((2, 3), keepdims=True)

    def _shortcut(self, layer, value, other):
        factor, channels = other.shape[2] // layer.height, min(other.shape[1], layer.channels)
        added = value.at[:, :channels].add(other[:, :channels, ::factor, ::factor])
        return self._activated(added, layer.activation)

    def _route(self, layer, *values):
        return jnp.concatenate(values, axis=1)

    def _upsample(self, layer, value):
        factor = layer.number("stride", 2)
        return jnp.repeat(jnp.repeat(value, factor, axis=2), factor, axis=3)

    def _softmax(self, layer, value):
        return jax.nn.softmax(value.reshape(len(value), -1), axis=1).reshape(value.shape)

    def _yolo(self, layer, value):
        entries = 5 + layer.number("classes")
        boxes = value.reshape(len(value), -1, entries, layer.height * layer.width)
        is_size = jnp.isin(jnp.arange(entries), jnp.array([2, 3]))[:, None]
        return jnp.where(is_size, boxes, jax.nn.sigmoid(boxes)).reshape(value.shape)
