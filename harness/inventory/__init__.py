"""What was agreed about a provider's tools, its hashes, and neutral facts about how two lists differ."""
