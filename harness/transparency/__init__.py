"""What a gateway changes on the way: the same provider asked directly and through it, side by side. Facts, then judgement, then pages."""
