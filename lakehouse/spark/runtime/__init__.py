"""Processes of a Spark job: sessions, connections, tasks, memory, types and errors."""
