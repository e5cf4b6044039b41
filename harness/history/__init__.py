"""What earlier runs said: one SQLite file, bounded."""
