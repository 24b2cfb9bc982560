"""The demo: the main job, end to end."""
