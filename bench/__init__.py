"""`make bench`: how fast the gateway and the harness are, measured side by side in one run. Development tooling; not in the wheel."""
