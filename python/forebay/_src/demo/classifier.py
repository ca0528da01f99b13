"""A small classifier in NumPy, which shows that a model can learn from the batches."""

from __future__ import annotations

from typing import Any

import numpy as np

Batch = dict[str, np.ndarray[Any, Any]]


class Classifier:
    """A two-layer perceptron, trained by stochastic gradient descent with momentum."""

    def __init__(self, inputs: int = 784, hidden: int = 160) -> None:
        """Starts from small random weights, the same every time."""
        rng = np.random.default_rng(0)
        self.weights = [
            rng.standard_normal((inputs, hidden)) * 0.05,
            np.zeros(hidden),
            rng.standard_normal((hidden, 10)) * 0.1,
            np.zeros(10),
        ]
        self.speed = [np.zeros_like(w) for w in self.weights]

    def forward(self, x: np.ndarray[Any, Any]) -> tuple[Any, Any]:
        """Returns the hidden layer and the logits."""
        hidden = np.maximum(x @ self.weights[0] + self.weights[1], 0)
        return hidden, hidden @ self.weights[2] + self.weights[3]

    def train(self, batch: Batch, rate: float) -> None:
        """Takes one step."""
        x, y = batch["png"].reshape(len(batch["label"]), -1), batch["label"]
        hidden, logits = self.forward(x)
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[np.arange(len(y)), y] -= 1
        p /= len(y)
        back = (p @ self.weights[2].T) * (hidden > 0)
        for w, v, g in zip(self.weights, self.speed, [x.T @ back, back.sum(0), hidden.T @ p, p.sum(0)], strict=True):
            v *= 0.9
            v -= rate * g
            w += v

    def accuracy(self, batches: list[Batch]) -> float:
        """Returns the share of right answers."""
        right = [(self.forward(b["png"].reshape(len(b["label"]), -1))[1].argmax(1) == b["label"]) for b in batches]
        return float(np.concatenate(right).mean())
