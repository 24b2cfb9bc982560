"""Publication of our tables as Iceberg tables over the same Parquet files.

Words: *coverage* (the files of a snapshot that Iceberg's readers may see) → *assembly* (its manifests, of
which few are new) → *document* (table metadata as JSON). A *hold* is a tag that keeps what is published;
the *lag* is what is not published yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.iceberg.publishing.automatic import published
    from lakehouse.iceberg.publishing.publisher import publish_table
    from lakehouse.iceberg.publishing.schemas import published_schema

__all__ = ["publish_table", "published", "published_schema"]

__getattr__, __dir__ = door(
    __name__,
    {"automatic": "published", "publisher": "publish_table", "schemas": "published_schema"},
)
