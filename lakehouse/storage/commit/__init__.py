"""Commits: drafts of snapshots, the committer, and the simple changes."""
