"""Vendors' own server software, run on loopback by the harness: one file per provider, self-declared as LOCAL, found by its folder."""
