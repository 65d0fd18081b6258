"""Lab 05, reference solution: one layer on eight devices, cut in seven ways."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

jax.config.update("jax_num_cpu_devices", 8)  # must come before JAX does anything


def mlp(x, w1, w2):
    """Two products with an activation between: x[B, D], w1[D, F], w2[F, D]."""
    return jax.nn.silu(x @ w1) @ w2


def block(x, w1, w2):
    """The layer with its surroundings: a norm before it, and its input added to its output."""
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + 1e-6)
    return x + mlp(x * scale.astype(x.dtype), w1, w2)


def loss(w1, w2, x, t):
    """Half the squared distance to the targets t[B, D], as a mean over the rows."""
    return jnp.sum(jnp.square(mlp(x, w1, w2) - t), dtype=jnp.float32) / (2 * len(x))


def gradients(x, t, w1, w2):
    """The gradients of the loss with respect to w1 and w2."""
    return jax.grad(loss, argnums=(0, 1))(w1, w2, x, t)


def mesh(**axes):
    """All devices, in order, along named axes: mesh(data=2, model=4)."""
    return Mesh(np.array(jax.devices()).reshape(tuple(axes.values())), tuple(axes))


def on(devices, *axes):
    """How an array is cut over a mesh: on(devices, None, "model") cuts its second dimension."""
    return NamedSharding(devices, PartitionSpec(*axes))


def tensor_parallel():
    """Task 1. w1 by columns, w2 by rows; x and y whole."""
    devices = mesh(model=8)
    weights = on(devices, None, "model"), on(devices, "model")
    return jax.jit(mlp, in_shardings=(on(devices), *weights), out_shardings=on(devices))


def data_parallel():
    """Task 2. The rows of x and t; weights and gradients whole."""
    devices = mesh(data=8)
    rows, whole = on(devices, "data"), on(devices)
    return jax.jit(gradients, in_shardings=(rows, rows, whole, whole), out_shardings=whole)


def both():
    """Task 3. Rows over two devices, weights and gradients over four."""
    devices = mesh(data=2, model=4)
    rows = on(devices, "data")
    weights = on(devices, None, "model"), on(devices, "model")
    return jax.jit(gradients, in_shardings=(rows, rows, *weights), out_shardings=weights)


def fsdp():
    """Task 4. Rows, weights and gradients over the same axis; several microbatches."""
    devices = mesh(data=8)

    def step(x, t, w1, w2):
        whole = tuple(jax.lax.all_gather(w, "data", tiled=True) for w in (w1, w2))

        def add(total, microbatch):
            return jax.tree.map(jnp.add, total, gradients(*microbatch, *whole)), None

        total, _ = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, whole), (x, t))
        count = jax.lax.psum(1, "data")
        return tuple(jax.lax.psum_scatter(g / count, "data", tiled=True) for g in total)

    rows, weights = PartitionSpec(None, "data"), PartitionSpec("data")
    return jax.jit(
        jax.shard_map(
            step,
            mesh=devices,
            in_specs=(rows, rows, weights, weights),
            out_specs=(weights, weights),
            check_vma=False,
        )
    )


def sequence_parallel():
    """Task 5. As task 1, with the rows of x and y cut."""
    devices = mesh(model=8)
    rows = on(devices, "model")
    weights = on(devices, None, "model"), on(devices, "model")
    return jax.jit(block, in_shardings=(rows, *weights), out_shardings=rows)


def experts():
    """Task 6. Each device has one expert, and tokens for all of them."""
    devices = mesh(expert=8)

    def exchange(tokens):
        return jax.lax.all_to_all(tokens, "expert", split_axis=0, concat_axis=0, tiled=True)

    def layer(x, w1, w2):
        mine = exchange(x[0])  # [E, C, D] of this device; behind it, [G, C, D] of all for mine
        return exchange(mlp(mine, w1[0], w2[0]))[None]

    cut = PartitionSpec("expert")
    return jax.jit(
        jax.shard_map(layer, mesh=devices, in_specs=(cut, cut, cut), out_specs=cut, check_vma=False)
    )


def fastest():
    """Task 7. The weights have twice the bytes of the activations, so they get more parts."""
    return both()
