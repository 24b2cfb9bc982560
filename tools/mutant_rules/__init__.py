"""The rules of tables and of the catalog, each with a change that leaves it out and tests that see it."""

from __future__ import annotations

from tools.mutant_rules.catalog import CATALOG
from tools.mutant_rules.commits import COMMITS
from tools.mutant_rules.indexes import INDEXES
from tools.mutant_rules.log import LOG
from tools.mutant_rules.merging import MERGING
from tools.mutant_rules.model import Mutant
from tools.mutant_rules.proofs import PROOFS

__all__ = ["MUTANTS", "Mutant"]

MUTANTS = (*COMMITS, *MERGING, *LOG, *INDEXES, *CATALOG, *PROOFS)
