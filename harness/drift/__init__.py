"""Judgement on the facts of inventory.diff: one rule, one entry."""
