"""Public test kit: stores that misbehave on purpose, a catalog in memory, and real object stores on loopback.

The conformance suite is imported by name (``lakehouse.testing.conformance``), because it
needs pytest; so are the servers and the proxy, which tests start and production does not.
"""

from __future__ import annotations

from lakehouse.testing.faults import Fault, FaultKind, FaultyStore, PowerCut
from lakehouse.testing.manual_clock import ManualClock
from lakehouse.testing.memory_catalog import CatalogCall, HeldCalls, MemoryCatalog, MemoryRelation
from lakehouse.testing.memory_graph import memory_graph
from lakehouse.testing.stores import Call, LatencyStore, RecordingStore, UnsafeStore, memory_store

__all__ = [
    "Call",
    "CatalogCall",
    "Fault",
    "FaultKind",
    "FaultyStore",
    "HeldCalls",
    "LatencyStore",
    "ManualClock",
    "MemoryCatalog",
    "MemoryRelation",
    "PowerCut",
    "RecordingStore",
    "UnsafeStore",
    "memory_graph",
    "memory_store",
]
