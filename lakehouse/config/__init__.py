"""Settings: every number that bounds the engine, with its meaning, in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.config.catalogs import AccountConfig, CatalogConfig
    from lakehouse.config.groups import (
        ENV_PREFIX,
        CacheSettings,
        CatalogSettings,
        IcebergSettings,
        IndexSettings,
        IoSettings,
        SettingInfo,
        SqlSettings,
        TableSettings,
    )
    from lakehouse.config.layers import (
        WHOLE_BUDGET,
        FileLayerSettings,
        LayerSettings,
        MetaCacheSettings,
        MetaSettings,
        PointerLayerSettings,
    )
    from lakehouse.config.secret import Secret
    from lakehouse.config.settings import RESERVED_ENV, Settings

__all__ = [
    "ENV_PREFIX", "RESERVED_ENV", "WHOLE_BUDGET", "AccountConfig", "CacheSettings", "CatalogConfig",
    "CatalogSettings", "FileLayerSettings", "IcebergSettings", "IndexSettings", "IoSettings", "LayerSettings",
    "MetaCacheSettings", "MetaSettings", "PointerLayerSettings", "Secret", "SettingInfo", "Settings",
    "SqlSettings", "TableSettings",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "catalogs": "AccountConfig CatalogConfig",
        "groups": "ENV_PREFIX CacheSettings CatalogSettings IcebergSettings IndexSettings IoSettings "
        "SettingInfo SqlSettings TableSettings",
        "layers": "WHOLE_BUDGET FileLayerSettings LayerSettings MetaCacheSettings MetaSettings "
        "PointerLayerSettings",
        "secret": "Secret",
        "settings": "RESERVED_ENV Settings",
    },
)
