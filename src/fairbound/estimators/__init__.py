"""The scikit-learn estimators (classifier, regressor, ranker and others), and the parts that they are made of."""
