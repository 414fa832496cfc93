"""scikit-learn: forests, with as many processes as the second argument says."""

import sys

import pace
import sklearn.datasets
import sklearn.ensemble
import sklearn.model_selection

if __name__ == "__main__":
    x, y = sklearn.datasets.make_classification(3000, 20, random_state=1)
    for step in pace.steps():
        forest = sklearn.ensemble.RandomForestClassifier(20, random_state=step)
        sklearn.model_selection.cross_val_score(forest, x, y, cv=4, n_jobs=int(sys.argv[2]))
