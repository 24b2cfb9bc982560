"""Commits: one create-if-absent, decided against the head, tried again behind whoever was first.

Words: *change* (what a commit wants) → *draft* (that, for one head) → *snapshot* (the child). A *fold* puts
entries into manifests; a *spilled manifest* holds the entries of one commit that is too large for its
snapshot.
"""
