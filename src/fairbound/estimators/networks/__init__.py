"""Models trained on random batches: networks of the library's own, any module, and linear models where these are tried."""
