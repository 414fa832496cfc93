"""Polars: groups, joins and sorts."""

import numpy
import pace
import polars

random = numpy.random.default_rng(1)
for step in pace.steps():
    n = 300_000
    frame = polars.DataFrame({"key": random.integers(0, 1000, n), "value": random.normal(size=n)})
    means = frame.group_by("key").agg(polars.col("value").mean().alias("mean"))
    frame.join(means, on="key").sort("value").filter(polars.col("value") > polars.col("mean"))
