"""Arrays, compiled loops and cores: what formats and expressions compute with."""
