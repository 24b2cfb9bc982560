"""Jobs of executors: compaction, clustering, maintenance, enumeration of indexes."""
