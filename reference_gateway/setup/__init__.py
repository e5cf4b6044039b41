"""Setting a memory connection up: from the gallery through identity and credentials to a connection whose provider let us in."""
