"""The catalog: names, nodes and snapshots of tables, out of our warehouse and of Iceberg's catalogs."""
