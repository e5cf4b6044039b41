"""A drift result drawn: one file per format, each a pure function from the result to bytes."""
