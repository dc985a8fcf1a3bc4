"""The one training loop: budget, best verified iterate, checkpoint."""
