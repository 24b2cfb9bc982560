"""GreptimeDB's directories: keys, manifests, and the index files that they refer to."""
