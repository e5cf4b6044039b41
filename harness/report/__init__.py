"""Results drawn: one file per format, each a pure function from Results to files; `write` alone touches the disk."""
