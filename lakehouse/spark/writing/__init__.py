"""Writes of frames: shuffled by key, uploaded by tasks, committed by the driver."""
