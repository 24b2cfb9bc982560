"""Public test kit: stores that misbehave on purpose, and real object stores on loopback."""
