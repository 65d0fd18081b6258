"""An array library on a simulated clock: its products take a known time, whatever this computer is
busy with.
"""

import numpy as np

from course_lib.bench import Machine

H100 = Machine(name="NVIDIA H100 80GB HBM3", kind="cuda", key="h100-sxm", cache=1e6)
STRANGER = Machine(
    name="NVIDIA H900", kind="cuda", cache=1e6, note="not in the spec table under this name"
)


class FakeArrays:
    """Multiplies for real, each pair of operands once, and takes `rate` operations per simulated
    second for it.

    `first` is how many times slower the first call is. `order` records which operands each product
    took.
    """

    label = "fake 1.0"

    def __init__(self, rate=1e9, first=1.0, *, lacks=(), memory=None, noise=None):
        self.rate, self.first, self.lacks, self.memory = rate, first, lacks, memory
        self.noise = noise or (lambda call: 1.0)
        self.now, self.calls, self.made, self.order, self.products = 0.0, 0, [], [], {}

    def supports(self, dtype):
        return f"no {dtype} here" if dtype in self.lacks else ""

    def operand(self, rows, columns, dtype, data, seed, *, second=False):
        if self.memory is not None and rows * columns > self.memory:
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")
        self.made.append((rows, columns, data, seed))
        if data == "zeros":
            return np.zeros((rows, columns))
        return np.random.default_rng(seed).standard_normal((rows, columns))

    def multiply(self, a, b, dtype):
        self.calls += 1
        self.order.append(id(a))
        slow = self.first if self.calls == 1 else 1.0
        self.now += (
            2 * a.shape[0] * a.shape[1] * b.shape[1] / self.rate * slow * self.noise(self.calls)
        )
        # The operands are kept beside their product: the id of a freed array is another's next.
        if (id(a), id(b)) not in self.products:
            self.products[id(a), id(b)] = a, b, a @ b
        return self.products[id(a), id(b)][-1]

    def copy(self, to, source):
        self.now += 16 * source.size / self.rate

    def triad(self, to, a, b):
        self.now += 24 * a.size / self.rate

    def outer(self, to, a, b):
        to += a @ b
        self.now += 8 * (2 * to.size * a.shape[1] + a.size + b.size) / self.rate

    def timed(self, run, calls):
        start = self.now
        for _ in range(calls):
            run()
        return [(self.now - start) / calls]

    def rows(self, matrix, count):
        return np.asarray(matrix[:count], np.float64)

    def settings(self, dtype):
        return "simulated"
