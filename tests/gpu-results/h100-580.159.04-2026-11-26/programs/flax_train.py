"""JAX with optax: 300 steps whose input is random numbers of the GPU."""
import os

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
import jax
import jax.numpy as jnp
import optax


def init(key):
    a, b = jax.random.split(key)
    return {"a": jax.random.normal(a, (512, 2048)) * 0.02, "b": jax.random.normal(b, (2048, 512)) * 0.02}
def loss(p, x):
    return jnp.mean((jnp.tanh(x @ p["a"]) @ p["b"] - x) ** 2)
optimizer = optax.adam(1e-3)
@jax.jit
def step(p, s, x):
    value, grads = jax.value_and_grad(loss)(p, x)
    updates, s = optimizer.update(grads, s)
    return optax.apply_updates(p, updates), s, value
p = init(jax.random.key(0))
s = optimizer.init(p)
for n in range(300):
    x = jax.random.normal(jax.random.key(n), (256, 512))
    p, s, value = step(p, s, x)
    if n % 20 == 0:
        print(n, float(value))
