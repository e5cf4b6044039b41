"""The command line. Commands import what they need when they run, so that `harness --help` answers at once."""
