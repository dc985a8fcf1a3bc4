"""The training loop of all methods: budget, best verified iterate, checkpoint, diagnosis."""
