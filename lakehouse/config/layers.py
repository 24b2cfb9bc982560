"""Settings of each layer of caches: ``meta.cache.<layer>``.

Layers of the catalog may be refreshed ahead of time; what is read from files that never change has nothing to
refresh.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakehouse.config.groups import SettingsGroup
from lakehouse.options import declare

__all__ = [
    "WHOLE_BUDGET",
    "FileLayerSettings",
    "LayerSettings",
    "MetaCacheSettings",
    "MetaSettings",
    "PointerLayerSettings",
]

WHOLE_BUDGET = 1 << 40
"""A layer's ``max_bytes`` that stands for no limit of its own."""
_NEVER = "Seconds; 0 turns the layer off, inf keeps values until their bytes are needed."
_SHARE = "Bytes that the layer may hold of cache.max_bytes, which holds for all; 0 turns the layer off."


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayerSettings(SettingsGroup):
    """Layer of what is read from files that never change."""

    group = "meta.cache.<layer>"

    enable: bool = declare(True, "Whether anything is kept; false: all that is asked for is loaded.")
    ttl: float = declare(
        float("inf"),
        f"Time after which what nobody asks for is dropped. {_NEVER}",
        low=0,
        endless=True,
    )
    max_bytes: int = declare(WHOLE_BUDGET, _SHARE, low=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSettings(FileLayerSettings):
    """Layer of the catalog."""

    refresh: float = declare(
        0.0,
        "Age in seconds from which on a value that is asked for is loaded anew in the background and served "
        "meanwhile; 0 = never.",
        low=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerLayerSettings(LayerSettings):
    """Layer of the catalog whose values grow stale."""

    ttl: float = declare(
        2.0,
        "Age up to which a value is served: the bound of staleness. Seconds; 0 turns the layer off.",
        low=0,
    )


def _means(text: str) -> dict[str, str]:
    """Returns what the field of a layer says of it."""
    return {"meaning": text}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaCacheSettings:
    """Settings of each layer of caches, under the layer's name with ``_`` for ``-``."""

    names: PointerLayerSettings = field(
        default_factory=lambda: PointerLayerSettings(ttl=60.0, refresh=30.0),
        metadata=_means("Listings of namespaces and of the names in them."),
    )
    pointer: PointerLayerSettings = field(
        default_factory=PointerLayerSettings, metadata=_means("What a name stands for now.")
    )
    table: LayerSettings = field(
        default_factory=LayerSettings, metadata=_means("What a version of a table says of it.")
    )
    snapshots: LayerSettings = field(
        default_factory=LayerSettings, metadata=_means("Lists of snapshots, and single ones.")
    )
    partitions: LayerSettings = field(
        default_factory=LayerSettings, metadata=_means("Partitions of a snapshot.")
    )
    schema: LayerSettings = field(default_factory=LayerSettings, metadata=_means("Schemas by their ids."))
    view: LayerSettings = field(default_factory=LayerSettings, metadata=_means("Definitions of views."))
    statistics: LayerSettings = field(
        default_factory=LayerSettings, metadata=_means("Statistics of tables and columns by snapshot.")
    )
    hints: LayerSettings = field(default_factory=LayerSettings, metadata=_means("Hints of engines."))
    overlay: LayerSettings = field(
        default_factory=LayerSettings, metadata=_means("System objects by engine and version.")
    )
    table_snapshots: FileLayerSettings = field(
        default_factory=FileLayerSettings, metadata=_means("Snapshot files of our tables.")
    )
    table_schemas: FileLayerSettings = field(
        default_factory=FileLayerSettings, metadata=_means("Schema files of our tables.")
    )
    table_manifests: FileLayerSettings = field(
        default_factory=FileLayerSettings, metadata=_means("Manifests of our tables, as columns.")
    )
    table_lookups: FileLayerSettings = field(
        default_factory=FileLayerSettings, metadata=_means("Plans of lookups in snapshots of our tables.")
    )
    iceberg_manifest_lists: FileLayerSettings = field(
        default_factory=FileLayerSettings, metadata=_means("Manifest lists of Iceberg tables.")
    )
    iceberg_manifests: FileLayerSettings = field(
        default_factory=FileLayerSettings, metadata=_means("Manifests of Iceberg tables, as columns.")
    )
    iceberg_files: FileLayerSettings = field(
        default_factory=FileLayerSettings,
        metadata=_means("Data files of a set of manifests, with the bounds that plans made of them."),
    )
    puffin: FileLayerSettings = field(
        default_factory=FileLayerSettings, metadata=_means("Metadata of Puffin files and their blobs.")
    )
    run_metadata: FileLayerSettings = field(
        default_factory=FileLayerSettings, metadata=_means("Footers and indexes of data files.")
    )
    run_data: FileLayerSettings = field(
        default_factory=FileLayerSettings, metadata=_means("Blocks of data files.")
    )

    def entry(self, name: str) -> FileLayerSettings | None:
        """Returns the settings of the layer of that name; None for a cache that is no layer."""
        return getattr(self, name.replace("-", "_"), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaSettings:
    """Settings of metadata."""

    cache: MetaCacheSettings = field(default_factory=MetaCacheSettings)
