"""Commands about Iceberg tables: ``lakehouse iceberg …``.

Words: *command* (a function and the words it takes) → *outcome* (what is printed, and the exit code).
"""
