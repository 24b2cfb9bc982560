"""Keys of a GreptimeDB data directory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import FormatError, InvalidInputError
from lakehouse.index import IndexFileLocator
from lakehouse.index.greptime.layout import GreptimeFile, PathType, RegionDir, parse_table_dir, table_dir
from lakehouse.index.region_ids import region_id_of

ID = "4b220a70-2b03-4641-9687-b65d94641208"
SECOND = RegionDir(table_dir="table_dir/", table_id=1, sequence=2)

_NAMES = st.text("abc_09-ü", min_size=1, max_size=6)
_IDS = st.integers(0, 2**32 - 1)
REGIONS = st.builds(
    RegionDir,
    table_dir=st.lists(_NAMES, max_size=4).map(lambda names: "".join(f"{name}/" for name in names)),
    table_id=_IDS,
    sequence=st.integers(0, 2**24 - 1),
    path_type=st.sampled_from(PathType),
)
FILES = st.builds(
    GreptimeFile,
    region=REGIONS,
    file_id=st.uuids().map(str),
    index_version=st.none() | st.integers(0, 2**64 - 1),
)


@pytest.mark.parametrize(
    ("path_type", "folder"), [(PathType.BARE, ""), (PathType.DATA, "data/"), (PathType.METADATA, "metadata/")]
)
def test_paths_are_upstreams(path_type: PathType, folder: str) -> None:
    """Data and index files are where GreptimeDB's own tests expect them."""
    region = RegionDir.of("table_dir", region_id_of(1, 2), path_type)
    assert region.path == f"table_dir/1_0000000002/{folder}"
    assert region.sst(ID) == f"table_dir/1_0000000002/{folder}{ID}.parquet"
    assert region.index(ID) == f"table_dir/1_0000000002/{folder}index/{ID}.puffin"
    assert region.index(ID, 1) == f"table_dir/1_0000000002/{folder}index/{ID}.1.puffin"


def test_table_directories_are_upstreams() -> None:
    """A table's directory names its catalog, its schema and its id."""
    assert table_dir("greptime", "public", 1024) == "data/greptime/public/1024/"
    assert parse_table_dir("data/greptime/public/1024/") == ("greptime", "public", 1024)
    assert parse_table_dir("root/of/it/data/my_catalog_1/my_schema/42") == ("my_catalog_1", "my_schema", 42)


@pytest.mark.parametrize(
    "path", ["", "data/greptime/public/", "greptime/public/1/", "data/a/b/x/", "data/a/b/9999999999/"]
)
def test_other_directories_are_no_table_directories(path: str) -> None:
    """A directory of another form is refused by name."""
    with pytest.raises(FormatError, match="no table directory") as caught:
        parse_table_dir(path)
    assert caught.value.context["key"] == path


@pytest.mark.parametrize("name", ["", "a/b"])
def test_names_that_are_no_part_of_a_key_are_refused(name: str) -> None:
    """A catalog or schema whose name would change the depth of the key is refused."""
    with pytest.raises(InvalidInputError, match="catalog or schema"):
        table_dir("greptime", name, 1)


@given(FILES)
def test_files_are_parsed_as_they_are_built(file: GreptimeFile) -> None:
    """The key of a file says which file it is."""
    assert GreptimeFile.parse(file.key) == file


@given(REGIONS)
def test_regions_are_parsed_as_they_are_built(region: RegionDir) -> None:
    """The path of a region's directory says which region it is."""
    assert RegionDir.parse(region.path) == region
    assert RegionDir.parse(region.path.removesuffix("/")) == region


@given(REGIONS, st.sampled_from(["manifest/00000000000000000001.json.gz", "x", "index/", ".dropping", ""]))
def test_objects_are_split_into_region_and_rest(region: RegionDir, rest: str) -> None:
    """Any key below a region's directory gives the region and what is behind it."""
    assert RegionDir.split(region.path + rest) == (region, rest)


@given(_IDS, st.integers(0, 2**24 - 1), st.integers(0, 255))
def test_region_ids_are_made_of_their_parts(table: int, sequence: int, group: int) -> None:
    """Table, group and sequence make a region id and come out of it again."""
    locator = IndexFileLocator(table_dir="", region_id=region_id_of(table, sequence, group), file_id=ID)
    assert (locator.table_id, locator.region_group, locator.region_sequence) == (table, group, sequence)
    assert locator.region_number == group << 24 | sequence
    assert locator.region_id == table << 32 | locator.region_number


def test_region_ids_are_upstreams() -> None:
    """The region of GreptimeDB's own test is region 1 of table 11."""
    assert region_id_of(11, 1) == 47244640257


@pytest.mark.parametrize("parts", [(2**32, 0, 0), (0, 2**24, 0), (0, 0, 256), (-1, 0, 0)])
def test_parts_that_do_not_fit_are_refused(parts: tuple[int, int, int]) -> None:
    """A part with too many bits would change another one."""
    with pytest.raises(InvalidInputError, match=r"32.*8.*24"):
        region_id_of(*parts)


@pytest.mark.parametrize(("path_type", "group"), [("bare", 0), ("data", 0), ("metadata", 1)])
def test_the_group_follows_from_the_folder(path_type: str, group: int) -> None:
    """No key names a region's group; metadata regions are group 1, all others group 0."""
    region = RegionDir(table_dir="t/", table_id=3, sequence=4, path_type=PathType(path_type))
    assert region.region_id == region_id_of(3, 4, group)
    assert RegionDir.of("t", region_id_of(3, 4, 200), PathType(path_type)) == region


@pytest.mark.parametrize("given_dir", ["a//b", "/a/b/", "a/b//", "a/b"])
def test_slashes_collapse(given_dir: str) -> None:
    """However a table's directory is written, keys have single slashes and none in front."""
    assert RegionDir.of(given_dir, region_id_of(1, 2)).path == "a/b/1_0000000002/"


def test_the_last_region_name_counts() -> None:
    """A directory above that is named like a region does not confuse."""
    file = GreptimeFile.parse(f"5_0000000001/7_0000000002/data/index/{ID}.3.puffin")
    assert file.region == RegionDir(
        table_dir="5_0000000001/", table_id=7, sequence=2, path_type=PathType.DATA
    )
    assert (file.file_id, file.index_version) == (ID, 3)


@pytest.mark.parametrize(("text", "version"), [("0", 0), ("007", 7), ("18446744073709551615", 2**64 - 1)])
def test_versions_are_taken_as_upstream_takes_them(text: str, version: int) -> None:
    """Any number of 64 bits is a version, also in a spelling that is never written."""
    assert GreptimeFile.parse(SECOND.path + f"index/{ID}.{text}.puffin").index_version == version


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("", "no region directory"),
        (f"data/greptime/public/1024/index/{ID}.puffin", "no region directory"),
        (f"t/1_2/index/{ID}.puffin", "no region directory"),
        (f"t/1_0016777216/index/{ID}.puffin", "no region directory"),
        (f"t/4294967296_0000000001/index/{ID}.puffin", "no region directory"),
        (f"t/1_0000000002/{ID}.puffin", "neither a data nor an index file"),
        (f"t/1_0000000002/index/{ID}.parquet", "neither a data nor an index file"),
        (f"t/1_0000000002/index/deep/{ID}.puffin", "neither a data nor an index file"),
        (f"t/1_0000000002/other/index/{ID}.puffin", "neither a data nor an index file"),
        (f"t/1_0000000002/{ID}.1.parquet", "neither a data nor an index file"),
        (f"t/1_0000000002/index/{ID}.1.2.puffin", "neither a data nor an index file"),
        ("t/1_0000000002/index/puffin", "neither a data nor an index file"),
        (f"t/1_0000000002/index/{ID}", "neither a data nor an index file"),
        ("t/1_0000000002/", "neither a data nor an index file"),
        ("t/1_0000000002/manifest/00000000000000000001.json", "neither a data nor an index file"),
        (f"t/1_0000000002/index/{ID.upper()}.puffin", "file id"),
        ("t/1_0000000002/index/x.puffin", "file id"),
        (f"t/1_0000000002/index/{ID.replace('-', '')}.puffin", "file id"),
        (f"t/1_0000000002/index/{ID}.x.puffin", "index version"),
        (f"t/1_0000000002/index/{ID}..puffin", "index version"),
        (f"t/1_0000000002/index/{ID}.+1.puffin", "index version"),
        (f"t/1_0000000002/index/{ID}.18446744073709551616.puffin", "index version"),
    ],
)
def test_other_keys_are_refused_by_name(key: str, problem: str) -> None:
    """A key that is no data or index file of a region is an error that says why."""
    with pytest.raises(FormatError, match=problem) as caught:
        GreptimeFile.parse(key)
    assert caught.value.context["key"] == key


@pytest.mark.parametrize("path", ["t/1_0000000002/index/", "t/", "t/1_2/"])
def test_other_directories_are_no_region_directories(path: str) -> None:
    """A directory above or below a region's is refused by name."""
    with pytest.raises(FormatError, match="no region directory"):
        RegionDir.parse(path)


def test_only_whole_file_ids_make_keys() -> None:
    """A file id that is no UUID, and a version that is no number of 64 bits, make no key."""
    with pytest.raises(InvalidInputError, match="UUID"):
        SECOND.sst("../secret")
    with pytest.raises(InvalidInputError, match="64 bits"):
        SECOND.index(ID, 2**64)
