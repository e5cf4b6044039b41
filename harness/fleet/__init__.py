"""Drift checks from their sources to their results: one, or ten thousand. It acts and writes; judging is harness.drift's."""
