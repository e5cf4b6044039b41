"""The gateway's durable state: the protocol in `base`, one module per engine."""
