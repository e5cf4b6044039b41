"""A run as OpenTelemetry traces: harness, gateway and provider joined by the trace context that the harness sent."""
