"""What was claimed, and how far the evidence of one or many runs carries it."""
