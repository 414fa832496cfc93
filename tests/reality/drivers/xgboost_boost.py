"""XGBoost: one training after another."""

import pace
import sklearn.datasets
import xgboost

x, y = sklearn.datasets.make_regression(20000, 30, random_state=1)
for step in pace.steps():
    xgboost.train({"nthread": 2, "max_depth": 6}, xgboost.DMatrix(x, y), 10)
