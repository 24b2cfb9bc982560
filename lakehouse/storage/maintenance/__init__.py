"""Maintenance: expiry, orphans, purge, verification, repair, rebuilt indexes."""
