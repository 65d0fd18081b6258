"""Lab 05: cut one layer over eight devices, in seven ways.

Every task is a function that returns a program: a function passed to jax.jit with in_shardings and
out_shardings, or to jax.shard_map and then to jax.jit. Copy this file to my_sharding.py, fill in
the tasks, and have your file graded:

    course grade 05 my_sharding.py

The grader compiles each program for eight devices, reads in the compiled text what they exchange,
runs the program on random numbers in bf16, and checks its results.
"""

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
    """Task 1: y = mlp(x, w1, w2) on mesh(model=8).

    Every device holds x and y whole, and an eighth of each weight.
    """
    # TODO 1: cut w1 and w2 so that each device can do its part of both products without needing
    #         anything from the others. All that's left to exchange is one all-reduce, of y. With
    #         devices = mesh(model=8), return jax.jit(mlp, in_shardings=(..., ..., ...),
    #         out_shardings=...), one on(devices, ...) for each array.
    raise NotImplementedError


def data_parallel():
    """Task 2: dw1, dw2 = gradients(x, t, w1, w2) on mesh(data=8).

    Every device holds an eighth of the rows of x and t. Weights and gradients are whole.
    """
    # TODO 2: the same with gradients. The compiler works out by itself that the gradients must be
    #         added up over the devices.
    raise NotImplementedError


def both():
    """Task 3: dw1, dw2 = gradients(x, t, w1, w2) on mesh(data=2, model=4).

    Rows are cut over "data" as in task 2, weights over "model" as in task 1, and gradients like
    their weights.
    """
    # TODO 3: there are all-reduces in groups of four devices and in groups of two. Before you run
    #         it, say which is which.
    raise NotImplementedError


def fsdp():
    """Task 4: the gradients of several microbatches, added up, on mesh(data=8).

    x[M, B, D] and t[M, B, D] are M microbatches; B is cut. Every device keeps an eighth of the rows
    of w1 and of w2, and returns the same eighth of the sum of the microbatches' gradients. Weights
    are gathered once, and gradients exchanged once.
    """
    # TODO 4: in jax.shard_map, where you write what one device does. Gather the weights with
    #         jax.lax.all_gather(w, "data", tiled=True), loop over the microbatches with
    #         jax.lax.scan, adding up gradients, and give every device its part of their sum with
    #         jax.lax.psum_scatter(g, "data", tiled=True). A device's gradients are means over its
    #         own rows. jax.jit(jax.shard_map(step, mesh=..., in_specs=..., out_specs=...,
    #         check_vma=False)), with one PartitionSpec for each array.
    raise NotImplementedError


def sequence_parallel():
    """Task 5: y = block(x, w1, w2) on mesh(model=8).

    Weights are cut as in task 1. The rows of x and y are cut too, so that the norm and the addition
    are done once for each row, and not eight times.
    """
    # TODO 5: an all-gather and a reduce-scatter. Only two words change from task 1.
    raise NotImplementedError


def experts():
    """Task 6: a mixture of eight experts on mesh(expert=8).

    x[G, E, C, D]: C tokens that device g has for expert e; w1[E, D, F] and w2[E, F, D]: one expert
    on each device. Return y[G, E, C, D], with y[g, e] = mlp(x[g, e], w1[e], w2[e]), cut along G.
    """
    # TODO 6: in jax.shard_map, where a device sees x[1, E, C, D] and the weights of its own expert.
    #         jax.lax.all_to_all(tokens, "expert", split_axis=..., concat_axis=..., tiled=True)
    #         takes the tokens to their experts, and a second one takes the results back.
    raise NotImplementedError


def fastest():
    """Task 7: gradients(x, t, w1, w2) again, for B = 16,384, D = 4,096, and F = 16,384 in bf16.

    Gradients are cut like their weights. Choose the mesh and the shardings so that all collectives
    together take at most 0.4 ms on the NVLink of eight H100s. Task 1's way of cutting takes more,
    and so does task 2's.
    """
    # TODO 7: count the bytes first. How many are exchanged for the activations, and how many for
    #         the weights?
    raise NotImplementedError
