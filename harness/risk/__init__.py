"""The harness's own risk oracle, and who disagrees with it."""
