"""Region ids of GreptimeDB: a table, a group and a sequence in one number."""

from __future__ import annotations

from lakehouse.errors import InvalidInputError

__all__ = ["SEQUENCE_MAX", "region_group", "region_id_of", "region_number", "region_sequence", "table_id"]

_U32_MAX = (1 << 32) - 1
_GROUP_MAX = (1 << 8) - 1


SEQUENCE_MAX = (1 << 24) - 1


def table_id(region_id: int) -> int:
    """Returns the table id of a region."""
    return region_id >> 32


def region_number(region_id: int) -> int:
    """Returns group and sequence of a region as one number, unique among the regions of its table."""
    return region_id & _U32_MAX


def region_group(region_id: int) -> int:
    """Returns the group of a region: 0, or 1 for a metadata region of the metric engine."""
    return region_id >> 24 & _GROUP_MAX


def region_sequence(region_id: int) -> int:
    """Returns the sequence of a region, after which its directory is named."""
    return region_id & SEQUENCE_MAX


def region_id_of(table: int, sequence: int, group: int = 0) -> int:
    """Returns the region id made of table id, sequence and group."""
    if not (0 <= table <= _U32_MAX and 0 <= sequence <= SEQUENCE_MAX and 0 <= group <= _GROUP_MAX):
        raise InvalidInputError(
            f"a region has a table id of 32, a group of 8 and a sequence of 24 bits, not "
            f"{table}, {group} and {sequence}"
        )
    return table << 32 | group << 24 | sequence
