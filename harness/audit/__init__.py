"""Is this exported audit log what the gateway wrote? Answered offline, from the file, a public key and, where there are any, kept checkpoints."""
