"""Rules of the catalog: what caches may serve, whose it is, and what a name or a query stands for."""

from __future__ import annotations

from tools.mutant_rules.model import Mutant

__all__ = ["CATALOG"]

_REGION = "tests/cache/test_region.py"
_SHELF = "tests/cache/test_shelf.py"
_GRAPH = "tests/catalog/graph/test_graph.py"
_BULK = "tests/catalog/graph/test_bulk.py"
_CACHES = "tests/catalog/control/test_caches.py"
_PINS = "tests/catalog/pins/test_pin_set.py"
_SHARING = "tests/catalog/pins/test_sharing.py"
_PAGING = "tests/catalog/system/test_paging.py"
_SCOPES = "tests/iceberg/planning/test_source_scopes.py"
_VIEWS = "tests/cut_points/test_view_cut_points.py"

CATALOG = (
    # --- caches -----------------------------------------------------------------------
    Mutant(
        rule="landing: a load lands although its key was invalidated meanwhile",
        path="lakehouse/cache/region.py",
        old="        if self._flights.get(key) is not flight:\n            self._counters.unlanded",
        new="        if False:\n            self._counters.unlanded",
        tests=(f"{_REGION}::test_a_load_from_before_is_neither_kept_nor_joined",),
    ),
    Mutant(
        rule="grounding: an invalidation by a tag leaves loads that are under way",
        path="lakehouse/cache/region.py",
        old="for key, flight in self._flights.items() if unknown or tag in flight.tags])",
        new="for key, flight in self._flights.items() if False])",
        tests=(f"{_REGION}::test_a_load_from_before_is_neither_kept_nor_joined",),
    ),
    Mutant(
        rule="bounds: the time of a value counts from the end of its load",
        path="lakehouse/cache/region.py",
        old="            self._shelf.store(key, value, flight.tags, flight.began)",
        new="            self._shelf.store(key, value, flight.tags, self._steady())",
        tests=(f"{_SHELF}::test_the_time_counts_from_the_beginning_of_the_load",),
    ),
    Mutant(
        rule="max_staleness: a call gets what the layer has, however little staleness it asks for",
        path="lakehouse/catalog/graph/pointers.py",
        old="        return self._clock.steady() - known.seen_at >= seconds",
        new="        return False",
        tests=(f"{_GRAPH}::test_a_call_may_ask_for_less_staleness_than_the_layer",),
    ),
    Mutant(
        rule="deep refresh: the node of a version that did not change stays",
        path="lakehouse/catalog/graph/pointers.py",
        old="                known.node = None\n                known.drops += 1",
        new="                known.drops += 1",
        tests=(f"{_CACHES}::test_a_deep_refresh_makes_nodes_anew",),
    ),
    # --- accounts and credentials -----------------------------------------------------
    Mutant(
        rule="accounts: a relation has the same id for all of them",
        path="lakehouse/catalog/graph/pointers.py",
        old="        return ResourceId.of_relation(self.account, pointer.kind",
        new="        return ResourceId.of_relation('default', pointer.kind",
        tests=(f"{_GRAPH}::test_an_id_of_another_account_is_unknown",),
    ),
    Mutant(
        rule="accounts: whoever knows its id joins a shared query",
        path="lakehouse/catalog/pins/sharing.py",
        old="        if query.account != account:",
        new="        if False:",
        tests=(f"{_SHARING}::test_only_the_account_that_shared_joins",),
    ),
    Mutant(
        rule="scopes: all credentials are of one scope",
        path="lakehouse/iceberg/scopes.py",
        old="        fingerprint = _digest(properties, _ambient())\n        return Scope",
        new="        fingerprint = _digest(_ambient())\n        return Scope",
        tests=(f"{_SCOPES}::test_content_never_reaches_who_may_not_read_it",),
    ),
    Mutant(
        rule="scopes: what another scope holds is taken over without a look at the object",
        path="lakehouse/iceberg/planning/source.py",
        old="        return (head.size, head.version) == (copy.size, copy.version)",
        new="        return True",
        tests=(f"{_SCOPES}::test_another_object_of_the_path_is_not_the_same",),
    ),
    # --- listings ---------------------------------------------------------------------
    Mutant(
        rule="page tokens: one goes on with any listing",
        path="lakehouse/catalog/graph/page_tokens.py",
        old="            if digest == _digest(scope, body):",
        new="            if digest:",
        tests=(f"{_BULK}::test_tokens_of_other_listings_accounts_and_kinds_are_refused",),
    ),
    Mutant(
        rule="page tokens: a page of system rows begins with the last one given out",
        path="lakehouse/catalog/system/paging.py",
        old="if after is None or name(row) > after]",
        new="if after is None or name(row) >= after]",
        tests=(_PAGING,),
    ),
    # --- pins -------------------------------------------------------------------------
    Mutant(
        rule="pins: each touch of a table resolves it anew",
        path="lakehouse/catalog/pins/pin_set.py",
        old="            first = self._pins.get(node.id)\n",
        new="            first = None\n",
        tests=(f"{_PINS}::test_a_pinned_snapshot_survives_the_newest_advancing",),
    ),
    Mutant(
        rule="shared queries: each process pins for itself what is touched late",
        path="lakehouse/catalog/pins/query.py",
        old="        if not self._is_common:\n            return await resolve()",
        new="        if True:\n            return await resolve()",
        tests=(f"{_SHARING}::test_a_table_that_is_touched_late_has_one_snapshot_for_all",),
    ),
    Mutant(
        rule="shared queries: a share does not wait for touches that are under way",
        path="lakehouse/catalog/pins/query.py",
        old="        await self._pins.settled()  # of touches that had not asked\n",
        new="",
        tests=(f"{_SHARING}::test_a_touch_beside_the_share_is_shared",),
    ),
    # --- names of views ---------------------------------------------------------------
    Mutant(
        rule="names: a view takes the name of a live table, and a table that of a view",
        path="lakehouse/storage/tables/names.py",
        old="        if current.state is NameState.LIVE or current.kind is NameKind.ICEBERG:",
        new="        if current.kind is NameKind.ICEBERG:",
        tests=(f"{_VIEWS}::test_of_a_table_and_a_view_one_gets_the_name",),
    ),
    Mutant(
        rule="renamings: any that left a name for another is the one that happened",
        path="lakehouse/format/metadata/name_pointer.py",
        old="        return has_moved and self.renaming is not None and self.renaming == renamed.renaming",
        new="        return has_moved and self.moved_to == renamed.name",
        tests=(f"{_VIEWS}::test_a_view_renamed_further_in_the_middle_of_a_renaming_has_one_name",),
    ),
    Mutant(
        rule="renamings: a name is given away before the renaming that left it has ended",
        path="lakehouse/storage/tables/names.py",
        old="        await self.end_renaming(current)\n",
        new="",
        tests=(f"{_VIEWS}::test_a_name_that_is_taken_again_ends_the_renaming_that_left_it",),
    ),
)
