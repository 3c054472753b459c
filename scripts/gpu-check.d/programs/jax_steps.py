"""Steps of a compiled JAX function."""
import steady

import jax
import jax.numpy as jnp

if jax.default_backend() != "gpu":
    steady.skip("jax sees no GPU")


@jax.jit
def update(weights, batch):
    def loss(weights):
        return jnp.mean((jnp.tanh(batch @ weights) - batch) ** 2)

    return weights - 0.01 * jax.grad(loss)(weights)


weights, batch = jnp.ones((512, 512)), jnp.ones((256, 512))


def step():
    global weights
    weights = update(weights, batch)


steady.measure("jax_steps", step, lambda: weights.block_until_ready(), ["jax"])
