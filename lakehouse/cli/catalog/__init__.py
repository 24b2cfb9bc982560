"""Commands about catalogs, views and what engines know: ``lakehouse catalog …``, ``view …`` and others.

Words: those of the catalog; a *tree* is what a catalog holds, level by level.
"""
