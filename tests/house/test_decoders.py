"""Every decoder of bytes has a test that hands it damaged bytes, and the list of them is whole."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from tests.house.source_tree import ROOT, Module, library, none_of, parse

_NAME = re.compile(
    r"decode|decompress|from_tail|inflate|load_|metadata_|open_|parse|read_|scan_blocks|un(ion|pack)|with(out)?_"
)
_FOLDERS = ("lakehouse/format/", "lakehouse/kernels/")
_BOMBS, _COUNTS = "tests/damage/test_bombs.py", "tests/damage/test_counts.py"
_ROW_VALUES = "tests/format/sstable/test_row_values.py"
_PUFFIN, _SST = "tests/damage/test_puffin_corruption.py", "tests/damage/test_sstable_corruption.py"
_RESEALED = "tests/damage/test_resealed_objects.py"

TESTED: Mapping[str, tuple[str, str]] = {
    "avro.codecs.decompress_avro_blocks": ("tests/format/avro/test_codecs.py", "decompress_avro_blocks"),
    "avro.file.AvroFile.parse": ("tests/format/avro/test_file.py", "AvroFile.parse"),
    "avro.schema.parse_avro_schema": ("tests/format/avro/test_schema.py", "parse_avro_schema"),
    "puffin.codec.decompress_blob": (_BOMBS, "decompress_blob"),
    "puffin.codec.inflate": (_BOMBS, "decompress_blob"),
    "index.bloom.BloomMeta.decode": (_COUNTS, "BloomMeta.decode"),
    "index.bloom.BloomMeta.from_tail": (_PUFFIN, "BloomMeta.from_tail"),
    "index.bloom.BloomSummary.from_tail": (
        "tests/format/index/test_bloom_summary.py",
        "BloomSummary.from_tail",
    ),
    "metadata.database_marker.decode_database": (_RESEALED, '"_database"'),
    "puffin.deletion_vector.decode_deletion_vector": (_COUNTS, "decode_deletion_vector"),
    "puffin.footer_json.load_json": (_BOMBS, "PuffinFooter.parse"),
    "fst.fst.Fst.parse": (_COUNTS, "Fst.parse"),
    "index.greptime_value.decode_scalar": ("tests/format/index/test_greptime_value.py", "decode_scalar"),
    "metadata.hint.decode_hint": ("tests/format/metadata/test_hint.py", "decode_hint"),
    "index.inverted.InvertedMetas.decode": ("tests/format/index/test_inverted.py", "InvertedMetas.decode"),
    "index.inverted.InvertedMetas.from_tail": (
        "tests/format/index/test_inverted.py",
        "InvertedMetas.from_tail",
    ),
    "limits.json_object.parse_json": (_BOMBS, "decode_snapshot"),
    "puffin.lz4_frame.with_end_mark": ("tests/format/puffin/test_lz4_frame.py", "with_end_mark"),
    "metadata.manifest.decode_manifest": (_BOMBS, "decode_manifest"),
    "metadata.name_pointer.decode_pointer": (_BOMBS, "decode_pointer"),
    "keys.order_value.decode_fixed": ("tests/format/keys/test_order_value.py", "decode_fixed"),
    "keys.order_value.decode_value": ("tests/format/keys/test_order_value.py", "decode_value"),
    "parquet.decode.decode_chunks": ("tests/format/parquet/test_decode.py", "decode_chunks"),
    "parquet.pages.read_pages": ("tests/format/parquet/test_pages.py", "read_pages"),
    "parquet.run_footer.PieceTable.unpack": (_COUNTS, "PieceTable.unpack"),
    "parquet.file_footer.FileFooter.parse": ("tests/format/parquet/test_file_footer.py", "FileFooter.parse"),
    "parquet.file_footer.metadata_of": ("tests/format/parquet/test_file_footer.py", "FileFooter.parse"),
    "parquet.run_footer.RunHead.unpack": (_COUNTS, "RunHead.unpack"),
    "index.protobuf.Message.decode": ("tests/format/index/test_protobuf.py", "OUTER.decode"),
    "index.protobuf.decode_varints": (_COUNTS, "decode_varints"),
    "puffin.footer.BlobMeta.decompress": (_PUFFIN, "blob.decompress"),
    "puffin.footer.PuffinFooter.parse": (_BOMBS, "PuffinFooter.parse"),
    "index.roaring.read_bitmap": (_COUNTS, "read_bitmap"),
    "index.roaring.union_many": (_COUNTS, "union_many"),
    "keys.row_key.RowKeyCodec.decode_one": ("tests/format/keys/test_row_key.py", "decode_one"),
    "schema.schema_object.decode_schema": (_BOMBS, "decode_schema"),
    "metadata.sealed_json.SealedFormat.decode": (_BOMBS, "decode_snapshot"),
    "metadata.snapshot.decode_snapshot": (_BOMBS, "decode_snapshot"),
    "sstable.bloom.parse_bloom": (_COUNTS, "parse_bloom"),
    "sstable.entries.scan_blocks": ("tests/format/sstable/test_entries.py", "scan_blocks"),
    "sstable.frame.Footer.unpack": (_SST, "Footer.unpack"),
    "sstable.frame.Header.unpack": (_SST, "Header.unpack"),
    "sstable.frame.open_block": (_COUNTS, "open_block"),
    "sstable.index.BlockIndex.parse": (_COUNTS, "BlockIndex.parse"),
    "sstable.meta.FileMeta.parse": (_BOMBS, "FileMeta.parse"),
    "sstable.reader.SstableFile.parse": (_SST, "SstableFile.parse"),
    "sstable.reader.decode_sstable": (_SST, "decode_sstable"),
    "sstable.row_values.KeyValues.decode": (_ROW_VALUES, "KeyValues"),
    "sstable.row_values.RowValues.decode": (_ROW_VALUES, "RowValues"),
    "sstable.rows.unpack_row": ("tests/format/sstable/test_rows.py", "unpack_row"),
    "sstable.rows.unpack_rows": ("tests/format/sstable/test_rows.py", "unpack_rows"),
    "metadata.shared_query.decode_query": ("tests/format/metadata/test_shared_query.py", "decode_query"),
    "metadata.store_proof.decode_proof": ("tests/format/metadata/test_store_proof.py", "decode_proof"),
    "kernels.need_more.metadata_from_tail": ("tests/kernels/test_need_more.py", "metadata_from_tail"),
    "index.tantivy_directory.TantivyDirectory.decode": (_BOMBS, "TantivyDirectory.decode"),
    "index.tantivy_store.without_zstd": (_COUNTS, "without_zstd"),
    "puffin.theta_sketch.ThetaSketch.parse": (_COUNTS, "ThetaSketch.parse"),
    "metadata.view_version.decode_view_version": (
        "tests/format/metadata/test_view_version.py",
        "decode_view_version",
    ),
    "metadata.wal_segment.decode_segment": (_BOMBS, "decode_segment"),
}
"""Decoders, each with a test file that damages their bytes and how it names them or their caller."""

ALLOWED: Mapping[str, str] = {
    "avro.streams.read_only_bytes": "takes bytes and gives them back as an array",
    "fst.read.KeyRange.with_prefix": "takes what a caller looks for, and nothing that was stored",
    "sstable.loops.read_only": "takes bytes that were decoded, and makes them immutable",
}
"""Functions that look like decoders and are none, each with why."""


def _decoders(modules: Iterable[Module]) -> Iterator[str]:
    """Public functions and methods whose names say that they decode and whose parameters hold bytes."""
    for module in modules:
        if module.path.startswith(_FOLDERS):
            stem = module.name.removeprefix("lakehouse.").removeprefix("format.")
            owners = [one for one in module.tree.body if isinstance(one, ast.ClassDef)]
            for prefix, body in [("", module.tree.body), *((f"{one.name}.", one.body) for one in owners)]:
                if not prefix.startswith("_"):
                    functions = [one for one in body if isinstance(one, ast.FunctionDef)]
                    yield from (f"{stem}.{prefix}{one.name}" for one in functions if _is_decoder(one))


def _is_decoder(node: ast.FunctionDef) -> bool:
    if not _NAME.match(node.name):
        return False
    kinds = [ast.unparse(one.annotation) for one in node.args.args if one.annotation is not None]
    return any(re.search(r"\b(bytes|U8|Blocks)\b", kind) for kind in kinds)


def _offences(found: set[str]) -> Iterator[str]:
    listed = TESTED.keys() | ALLOWED.keys()
    for name in found - listed:
        yield f"{name}: hand it damaged bytes in a test, and name that test in TESTED"
    for name in listed - found:
        yield f"{name}: there is no such decoder (any more)"
    for name, (path, word) in TESTED.items():
        file = ROOT / path
        if not file.is_file() or word not in file.read_text(encoding="utf-8"):
            yield f"{name}: {path} does not mention {word}"


def test_every_decoder_has_a_test_with_damaged_bytes() -> None:
    """Each public decoder of the formats is in the list, and the test that it names mentions it."""
    none_of(_offences(set(_decoders(library()))), "Decoders are tested with damaged bytes:")


def test_a_decoder_without_a_test_is_found() -> None:
    """Functions and methods that decode bytes are found, others and private ones are not."""
    text = (
        "def decode_x(data: bytes) -> int: ...\n"
        "def encode_x(data: bytes) -> int: ...\n"
        "def _parse(data: bytes) -> int: ...\n"
        "class X:\n    def parse(cls, tail: bytes | memoryview) -> int: ...\n"
        "def parse_text(text: str) -> int: ...\n"
    )
    found = set(_decoders([parse(f"{_FOLDERS[0]}x.py", text)]))
    assert found == {"x.decode_x", "x.X.parse"}
    without = "x.X.parse: hand it damaged bytes in a test, and name that test in TESTED"
    assert without in set(_offences(found))
