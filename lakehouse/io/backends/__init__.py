"""Backends: the only modules that know fsspec, botocore, obstore and the file system.

Words: *backend* (the verbs of a store, spoken to one kind of server) → *driver* (the library it goes
through: fsspec, or obstore where that is *fast*) → *option* (what a user tells the driver).
"""
