"""Rules of the indexes of tables."""

from __future__ import annotations

from tools.mutant_rules.model import Mutant

__all__ = ["INDEXES"]

_INDEXES = "tests/storage/test_table_indexes.py"
_INDEX_READS = "tests/costs/test_index_reads.py"
_REBUILD = "tests/storage/maintenance/test_index_rebuild.py"

INDEXES = (
    # --- indexes of tables ------------------------------------------------------------
    Mutant(
        rule="indexes: files that one excludes are left out although they hide older rows",
        path="lakehouse/storage/scan/pruner.py",
        old="        return self._inner.excludes_keys(entry)",
        new="        return 'index' if self._answers.excludes(entry) else self._inner.excludes_keys(entry)",
        tests=(f"{_INDEXES}::test_what_hides_older_rows_is_read",),
    ),
    Mutant(
        rule="indexes: one that was altered is still the one that files have",
        path="lakehouse/storage/schema/index_evolution.py",
        old="replace(made, id=number) if one is old",
        new="replace(made, id=old.id) if one is old",
        tests=(f"{_INDEXES}::test_an_index_that_tells_case_is_not_asked_without",),
    ),
    Mutant(
        rule="indexes: one that comes again is taken for the one that was dropped",
        path="lakehouse/storage/schema/index_evolution.py",
        old="        number = schema.highest_index_id + 1\n        return",
        new="        number = 1 + max((one.id for one in schema.indexes), default=0)\n        return",
        tests=(f"{_INDEXES}::test_no_file_is_asked_for_an_index_that_was_dropped",),
    ),
    Mutant(
        rule="indexes: a rollback gives their ids out again",
        path="lakehouse/storage/commit/alter.py",
        old="        highest_index_id=before.schema.highest_index_id,\n",
        new="",
        tests=(f"{_INDEXES}::test_a_rollback_brings_no_index_back_that_means_something_else",),
    ),
    Mutant(
        rule="indexes: a column is asked of the index of another of its type",
        path="lakehouse/storage/indexes/search.py",
        old="{name: named[name].id for name in where.columns() if name in named}",
        new="{\n"
        "            name: {str(one.type): one.id for one in reversed(columns_of(schema.fields).values())}[\n"
        "                str(named[name].type)\n"
        "            ]\n"
        "            for name in where.columns() if name in named\n"
        "        }",
        tests=(f"{_INDEX_READS}::test_a_column_is_asked_of_its_own_index",),
    ),
    Mutant(
        rule="indexes: segments have the default number of rows, whatever the file says",
        path="lakehouse/index/search/rounds.py",
        old="RowSelection.of_segments(segments, metas.segment_row_count, metas.total_row_count)",
        new="RowSelection.of_segments(segments, 1024, metas.total_row_count)",
        tests=(f"{_INDEX_READS}::test_rows_of_segments_are_those_the_file_was_built_with",),
    ),
    Mutant(
        rule="indexes: rows are counted from the piece and not from the file",
        path="lakehouse/storage/scan/section_rows.py",
        old="of_file[piece.first_row : piece.first_row + piece.rows]",
        new="of_file[: piece.rows]",
        tests=(f"{_INDEX_READS}::test_rows_of_segments_are_those_the_file_was_built_with",),
    ),
    Mutant(
        rule="indexes: where there is none, nothing matches",
        path="lakehouse/storage/indexes/search.py",
        old="    return tree if is_inverted or is_bloom else ANY_ROW",
        new="    return tree if is_inverted or is_bloom else NO_ROW",
        tests=(f"{_INDEX_READS}::test_what_no_index_tells_may_be_anywhere",),
    ),
    Mutant(
        rule="indexes: a term whose place was not read is not there",
        path="lakehouse/format/fst/partial.py",
        old="                missing.update(error.places)\n",
        new="                pass\n",
        tests=("tests/format/fst/test_partial.py::test_parts_give_the_answers_of_the_whole_map",),
    ),
    Mutant(
        rule="indexes: a damaged one excludes its file",
        path="lakehouse/storage/indexes/search.py",
        old="                found = RowSelection.every(entry.rows)",
        new="                found = RowSelection.none(entry.rows)",
        tests=(f"{_REBUILD}::test_a_damaged_index_changes_no_answer",),
    ),
    Mutant(
        rule="indexes: a rebuild brings files back that are gone",
        path="lakehouse/storage/maintenance/index_rebuild.py",
        old=" = {entry.path: entry.index for entry in entries}\n\n"
        "    async def draft(self, base: Base) -> Draft | None:\n"
        '        """Returns the live entries with their new indexes; None when all files are gone."""\n'
        "        live = await base.manifests.entries(base.snapshot)\n",
        new=" = {entry.path: entry.index for entry in entries}\n        self.given = entries\n\n"
        "    async def draft(self, base: Base) -> Draft | None:\n        live = self.given\n",
        tests=(f"{_REBUILD}::test_files_that_go_meanwhile_are_passed_over",),
    ),
)
