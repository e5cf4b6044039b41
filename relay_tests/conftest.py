"""Tests that need namespaces: `make test-relay`. Where the kernel forbids them these are red; they are no part of `make test`."""
