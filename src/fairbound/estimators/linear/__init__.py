"""Linear models, trained on all rows at once: where training begins, how it goes on, the weight decay, coefficients."""
