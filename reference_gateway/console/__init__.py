"""The operator console: pages over the operator API, for people. It holds no authority of its own."""
