"""A place that cannot reach the gateway: namespaces, a root of its own, the probe, and the scripted agent that runs inside."""
