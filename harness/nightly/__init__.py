"""What is done about live providers around scenarios: preflight, sign-in, sweeping, and the night that ties it all together."""
