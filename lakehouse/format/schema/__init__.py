"""Schemas of tables: types, columns, options, rules of merging, definitions of indexes."""
