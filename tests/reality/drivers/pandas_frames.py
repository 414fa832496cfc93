"""pandas: groups, joins, and CSV there and back."""

import io

import numpy
import pace
import pandas

random = numpy.random.default_rng(1)
for step in pace.steps():
    n = 50_000
    frame = pandas.DataFrame({"key": random.integers(0, 1000, n), "value": random.normal(size=n), "name": [f"row {i % 97}" for i in range(n)]})
    means = frame.groupby("key").value.mean().rename("mean")
    pandas.read_csv(io.StringIO(frame.join(means, on="key").to_csv())).groupby("name").value.describe()
