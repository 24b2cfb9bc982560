"""Backends: the only modules that know fsspec, botocore, obstore and the file system."""
