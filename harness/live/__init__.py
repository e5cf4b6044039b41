"""Live runs: what must be there before one starts, what it may cost, what it may touch, and what it left behind."""
