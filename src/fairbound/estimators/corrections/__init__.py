"""What is added to the scores of a trained model to meet its bounds, or to decide more accurately under them."""
