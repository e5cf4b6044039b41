"""Stand-ins for the memory providers: one file each, declaring FAKE, over the shared kit. They prove nothing about a provider."""
