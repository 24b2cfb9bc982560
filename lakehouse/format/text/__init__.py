"""Words of texts: tokenizers, their configuration, and the match of a query."""
