"""LightGBM: one training after another."""

import lightgbm
import pace
import sklearn.datasets

x, y = sklearn.datasets.make_regression(20000, 30, random_state=1)
for step in pace.steps():
    lightgbm.train({"verbose": -1, "num_threads": 2}, lightgbm.Dataset(x, y), 20)
