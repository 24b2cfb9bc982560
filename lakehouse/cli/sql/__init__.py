"""SQL on the command line: ``lakehouse sql``, for a text, a script, or a conversation.

Words: *text* (one or more statements) → *result* (rows of one) → *form* (how rows are written). A *shell*
reads statements from a terminal; its own *commands* begin with a backslash.
"""
