"""JAX: a small network, compiled."""

import jax
import jax.numpy as jnp
import pace


def loss(weights, x, y):
    for w in weights[:-1]:
        x = jnp.tanh(x @ w)
    return jnp.mean((x @ weights[-1] - y) ** 2)


@jax.jit
def update(weights, x, y):
    return [w - 0.01 * g for w, g in zip(weights, jax.grad(loss)(weights, x, y))]


keys = jax.random.split(jax.random.PRNGKey(1), 4)
weights = [jax.random.normal(key, (256, 256)) * 0.05 for key in keys]
for step in pace.steps():
    x = jax.random.normal(jax.random.PRNGKey(step), (128, 256))
    weights = jax.block_until_ready(update(weights, x, x))
