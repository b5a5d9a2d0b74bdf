"""What we assume about formats, because public documents and dumps leave it open: one row each.

To add one: write a constant ``NAME = Assumption(...)`` below, in its area. ``where`` names the module and a word in it that obeys
the assumption, ``tests`` test functions, cases (``records/delete``), or a case's name within its file
(``escapes.toml: its name``). Then run ``trailgate assumptions --markdown > docs/assumptions.md``. Code that obeys a row may
refer to it by its constant. Tests prove that all that is named is there.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Area(StrEnum):
    """What an assumption is about; the headings of the document."""

    TRAILS = "Trails"
    MESSAGES = "Messages and their values"


class Assumption(NamedTuple):
    """One assumption: what, why, from where, which code obeys it and which tests name it.

    ``source`` is a section of the format notes or of the documents named; empty where nothing public says anything.
    """

    name: str
    area: Area
    statement: str
    why: str
    source: str
    where: tuple[str, ...]
    tests: tuple[str, ...] = ()


_TRAILS, _MESSAGES = Area.TRAILS, Area.MESSAGES

EMPTY_TOKENS: Final = Assumption(
    "empty-tokens",
    _TRAILS,
    "A record without tokens has an empty `T`",
    "every public dump of a data record has `T`; messages know no ROWID",
    "trail format §2",
    ("trail/writing/token_areas.py: EMPTY_TOKENS",),
    ("records/delete", "records/key-update"),
)
NO_REDO_LOG: Final = Assumption(
    "no-redo-log",
    _TRAILS,
    "AuditPos and AuditRBA are 0",
    "there is no redo log; DDL records of MySQL have zeros",
    "trail format §5.2",
    ("trail/writing/records.py: AUDIT_POS", "trail/writing/records.py: AUDIT_RBA"),
    ("records/insert",),
)
SPLIT_UPDATES: Final = Assumption(
    "split-updates",
    _TRAILS,
    "An update with befores is two records whose TransInd is split between them",
    "only the data part is printed",
    "trail format §10.3",
    ("trail/writing/writer.py: _groups",),
    ("records/update-pair",),
)
TRUNCATE_WITHOUT_DATA: Final = Assumption(
    "truncate-without-data",
    _TRAILS,
    "A truncate has no `D` token",
    "its header and its length are printed, the whole record is not",
    "trail format §10.5",
    ("trail/writing/records.py: D",),
    ("records/truncate",),
)
NULL_INTEGERS: Final = Assumption(
    "null-integers",
    _TRAILS,
    "A NULL integer is `FF FF` and zeros of its width",
    "NULL in fixed text has this form",
    "trail format §10.2",
    ("trail/values/numbers.py: NULL_INTEGER_IS_ZEROS",),
    ("values/int64-null",),
)
BARE_NULL: Final = Assumption(
    "bare-null",
    _TRAILS,
    "A bare `FF FF` is NULL; only read",
    "mentioned, never printed",
    "trail format §10.2",
    (
        "trail/values/text.py: decode_variable",
        "trail/values/text.py: null_cells",
        "trail/values/numbers.py: null_cells",
        "trail/values/times.py: null_cells",
    ),
    ("values/text-null-bare", "values/int64-null-bare"),
)
UNSIGNED_INTEGERS: Final = Assumption(
    "unsigned-integers",
    _TRAILS,
    "Unsigned integers are laid out as signed ones",
    "no dump shows one",
    "trail format §10.2",
    ("trail/values/numbers.py: decode_integer",),
    ("values/int16-unsigned", "values/unsigned64", "values/unsigned64-scaled"),
)
UNSET_LEAVES: Final = Assumption(
    "unset-leaves",
    _TRAILS,
    "A header leaf that is not known yet has info `FF` and zeros",
    "the printed header is of an open file",
    "trail format §2",
    ("trail/format/file_header.py: _encode_leaf",),
    ("headers/oracle-11-2",),
)
CHARSET_NUMBER: Final = Assumption(
    "charset-number",
    _TRAILS,
    "Character set number 0x20000000 is UTF-8",
    "the value in all dumps",
    "trail format §4.1",
    ("trail/format/file_header.py: charset", "storage/reading/charset.py: UTF_8_NUMBER"),
    (
        "test_the_character_set_of_all_dumps_is_ours_and_is_utf_8",
        "test_a_header_of_utf_8_goes_before_the_definitions",
    ),
)
SOURCE_AND_RECOVERY: Final = Assumption(
    "source-and-recovery",
    _TRAILS,
    "Data source 3 is log-based capture, recovery mode 1 is append mode",
    "inferred from what printed headers are of",
    "trail format §4.4, §4.5",
    ("trail/format/file_header.py: data_source", "trail/format/file_header.py: recovery_mode"),
    ("test_data_source_and_recovery_mode_are_those_of_the_printed_header",),
)
RAW_REDO_TAG: Final = Assumption(
    "raw-redo-tag",
    _TRAILS,
    "Token `t` (ORATAG) is raw bytes, shown in hexadecimal",
    "its text form is not public",
    "trail format §9",
    ("trail/format/tokens.py: GGS_TOKEN_ROWS",),
    ("test_a_redo_tag_is_shown_in_hex",),
)
MOVED_TRANS_IND: Final = Assumption(
    "moved-trans-ind",
    _TRAILS,
    "Where TransInd is above 3, the byte in front of AuditRBA's last three is meant",
    "one printed record of 11.2.1.0.1 has the two fields swapped; only read",
    "trail format §5",
    ("trail/format/record_header.py: swapped_indicators",),
    ("test_a_trans_ind_above_3_is_found_four_bytes_earlier",),
)
RESTARTS: Final = Assumption(
    "restarts",
    _TRAILS,
    "What stands in front of RestartAbend, of an open transaction, comes again behind it",
    "in append mode the old bytes are kept; to take both would double changes",
    "trail format §13",
    (
        "trail/format/record_types.py: ABEND",
        "trail/checking/transactions.py: restart",
        "storage/reading/restarts.py: Restarts",
    ),
    (
        "test_transactions_out_of_order_are_found",
        "test_a_whole_trail_is_saved_whole",
        "test_what_comes_again_is_read_once",
    ),
)
RESTART_RECORDS: Final = Assumption(
    "restart-records",
    _TRAILS,
    "Type 150 is RestartAbend; a restart record's one token is the name of the group, its id 67 hexadecimal",
    "151 is printed as RestartOK; a printed first record of 58 bytes has room for three letters, as EX1; no id is public",
    "trail format §7",
    ("trail/writing/restart.py: GROUP_NAME", "trail/writing/restart.py: IO_RESTART_ABEND"),
    ("test_a_restart_record_has_the_size_of_a_printed_one",),
)
RECOVERY_MODES: Final = Assumption(
    "recovery-modes",
    _TRAILS,
    "The header's recovery mode is 0 for overwrite mode, if 1 is append mode",
    "1 is printed; no header of a trail written in overwrite mode is",
    "trail format §4.5",
    ("storage/live/options.py: Recovery",),
    ("test_the_header_names_the_recovery_mode",),
)
CONTIGUOUS_TRANSACTIONS: Final = Assumption(
    "contiguous-transactions",
    _TRAILS,
    "Records of a transaction follow each other, but for metadata and DDL; transactions come in commit order",
    "the way capture writes; a check tells where it is otherwise",
    "trail format §8",
    ("trail/checking/transactions.py: follow", "trail/checking/transactions.py: check_csns"),
    ("test_transactions_out_of_order_are_found",),
)
NO_BARE_BEGIN: Final = Assumption(
    "no-bare-begin",
    _TRAILS,
    "In a trail whose transactions have LOGCSN or TRANID, a record without them begins none inside another",
    "both stand on the first record of each; so a damaged TransInd is found",
    "trail format §8",
    ("trail/checking/transactions.py: TORN",),
    ("test_transactions_out_of_order_are_found",),
)
UNSUPPORTED_TYPES: Final = Assumption(
    "unsupported-types",
    _TRAILS,
    "Types without a public layout are refused",
    "no layout to follow",
    "trail format §10.2",
    ("model/types.py: UNSUPPORTED",),
    ("test_a_value_that_cannot_be_written_is_named", "test_a_bad_byte_is_named_with_its_place"),
)
FLOATS: Final = Assumption(
    "floats",
    _TRAILS,
    "IEEE floats are big-endian in their width; NULL is `FF FF` and zeros",
    "integers are so",
    "trail format §10.2",
    ("trail/values/numbers.py: decode_float",),
    ("values/float", "values/double", "values/double-null"),
)
ZONED_TIMES: Final = Assumption(
    "zoned-times",
    _TRAILS,
    "A time with a zone is a date time with the zone's text behind it; its NULL is a bare `FF FF`",
    "said so, never printed",
    "trail format §10.2",
    ("trail/values/zoned_times.py: decode_zoned",),
    ("values/timestamp-zone", "values/timestamp-zone-null"),
)
INTERVALS: Final = Assumption(
    "intervals",
    _TRAILS,
    "An interval is ASCII text of its column's length",
    "date times are",
    "trail format §10.2",
    ("model/types.py: intervals",),
    ("values/interval-day-to-second", "values/interval-ebcdic-source"),
)
NATIONAL_TEXT: Final = Assumption(
    "national-text",
    _TRAILS,
    "National text is UTF-16BE, padded with two bytes a blank",
    "the DDR that Logdump prints says UTF-16BE",
    "trail format §10.2",
    ("trail/values/charsets.py: UTF_16",),
    ("values/national-variable", "values/national-fixed", "values/national-by-number"),
)
FIXED_BYTES: Final = Assumption(
    "fixed-bytes",
    _TRAILS,
    "Bytes of a fixed length have no length in front",
    "fixed text has none",
    "trail format §10.2",
    ("trail/values/raw.py: decode_fixed_bytes",),
    ("values/raw-fixed",),
)
FRAGMENTS: Final = Assumption(
    "fragments",
    _TRAILS,
    "A row beyond one record goes on in records of type 161 with the next of its bytes; Continued is Y in all but the last",
    "the type's name is public, its layout is not",
    "trail format §11",
    (
        "trail/reading/fragments.py: join_fragments",
        "trail/writing/long_records.py: _cut",
    ),
    (
        "test_a_row_beyond_a_record_goes_on_in_fragments",
        "test_a_row_in_fragments_is_one_operation",
        "test_each_image_of_an_update_has_its_own_fragments",
        "test_a_missing_fragment_is_an_error",
    ),
)
LARGE_OBJECT_LENGTH: Final = Assumption(
    "large-object-length",
    _TRAILS,
    "A value of a column that is a large object by its definition stands in its record up to 4,000 bytes",
    "a printed LONG of 513 bytes does, one of 7,070 does not",
    "trail format §11",
    ("trail/writing/large_objects.py: INLINE_BYTES",),
    ("test_what_is_long_by_its_definition_or_for_a_cell_stands_in_pieces",),
)
PIECES_WITHOUT_TOKENS: Final = Assumption(
    "pieces-without-tokens",
    _TRAILS,
    "Pieces and fragments have an empty `T`",
    "no whole piece is printed",
    "trail format §11",
    ("trail/writing/long_records.py: NO_TOKENS",),
    (
        "test_pieces_have_no_tokens_and_count_to_255",
        "test_a_row_beyond_a_record_goes_on_in_fragments",
    ),
)
PIECE_COUNT: Final = Assumption(
    "piece-count",
    _TRAILS,
    "RecCount stays at 255 for a large object of more pieces",
    "it has one byte; the piece itself has a number of four",
    "trail format §11",
    ("trail/writing/long_records.py: MAX_COUNT",),
    ("test_pieces_have_no_tokens_and_count_to_255",),
)
LARGE_UPDATES: Final = Assumption(
    "large-updates",
    _TRAILS,
    "An update with a large object is written as two records, never as a unified one",
    "nothing says to which image of a record with two a piece belongs",
    "",
    ("trail/writing/writer.py: _encoded",),
    ("test_an_update_with_a_large_object_is_never_unified",),
)
LONG_KEYS: Final = Assumption(
    "long-keys",
    _TRAILS,
    "A key update of type 117 is one of 115 with a length of four bytes",
    "its name ends in 32",
    "trail format §10.4",
    (
        "trail/format/record_types.py: Prefix",
        "trail/writing/long_records.py: IO_LONG_KEY_UPDATE",
    ),
    ("test_a_key_beyond_a_short_length_is_of_type_117",),
)
UNIFIED_UPDATES: Final = Assumption(
    "unified-updates",
    _TRAILS,
    "Unified updates have the before image in front, with a length of two bytes, or of four where it needs them; their partition byte has the bit 40",
    "what they hold is documented, the bytes are not; one printed header of one has the bit",
    "trail format §5.1 and §10.4",
    (
        "trail/reading/two_image_records.py: EITHER",
        "trail/writing/records.py: UNIFIED",
    ),
    (
        "formats/unified-full",
        "formats/unified-compact",
        "formats/unified-key-update",
        "test_a_record_of_both_images_may_have_fragments",
    ),
)
TABLE_RECORDS: Final = Assumption(
    "table-records",
    _TRAILS,
    "A table definition record is 34 bytes, then for each column its name, 23 numbers of two bytes in the order in which Logdump prints them, and remarks",
    "two printed lengths fit",
    "trail format §12",
    ("trail/format/metadata.py: TDR_HEAD",),
    (
        "test_tables_are_told_in_their_order_and_read_again",
        "test_a_printed_table_definition_has_its_printed_length",
    ),
)
DATABASE_RECORDS: Final = Assumption(
    "database-records",
    _TRAILS,
    "A database definition record holds a version and six texts; it is written and not read",
    "what Logdump prints of one is public, its 81 bytes are not",
    "trail format §12",
    ("trail/format/metadata.py: DDR_VERSION",),
    ("test_tables_are_told_in_their_order_and_read_again",),
)
TABLE_INDEXES: Final = Assumption(
    "table-indexes",
    _TRAILS,
    "A record names its table by two bytes in the trail's byte order",
    "Logdump blanks them in its print",
    "trail format §5.4",
    (
        "trail/writing/records.py: Naming",
        "trail/format/record_header.py: _indexed",
    ),
    ("formats/mysql-12-2-little-endian",),
)
LITTLE_ENDIAN_HEADERS: Final = Assumption(
    "little-endian-headers",
    _TRAILS,
    "A little-endian trail has a little-endian file header; either order is read",
    "no header of such a trail is printed",
    "trail format §3",
    ("trail/format/file_header.py: order",),
    ("test_a_little_endian_header_turns_every_number",),
)
LITTLE_ENDIAN_FRAMES: Final = Assumption(
    "little-endian-frames",
    _TRAILS,
    "The lengths of a record's frames, of keys and the numbers of pieces are in the trail's byte order",
    "those of tokens and columns are",
    "trail format §3",
    (
        "trail/format/byte_order.py: frame",
        "trail/writing/large_objects.py: piece_data",
    ),
    (
        "formats/key-update-little-endian",
        "test_the_printed_large_object_is_cut_as_printed",
    ),
)
LOG_BSN: Final = Assumption(
    "log-bsn",
    _TRAILS,
    "LOGBSN is laid out as the other CSNs, in headers of level 4 and above",
    "its name is public",
    "trail format §4.1",
    ("trail/format/file_header.py: log_bsn",),
    (
        "headers/leaves",
        "test_a_header_of_level_4_has_a_place_for_logbsn",
    ),
)
OWN_TOKENS: Final = Assumption(
    "own-tokens",
    _TRAILS,
    "What an operation's tokens hold stands on each of its images; LOGCSN and TRANID on the first record of a transaction",
    "printed lengths of a pair fit a ROWID on both",
    "trail format §9 and §14",
    ("trail/writing/token_areas.py: own_payloads",),
    (
        "formats/tokens",
        "test_both_images_have_the_tokens_of_their_operation",
    ),
)
LARGE_OBJECT_IMAGES: Final = Assumption(
    "large-object-images",
    _TRAILS,
    "A large object belongs to the after image of the change in front of it, to the before image of a delete or behind a before image",
    "pieces name a column, not an image",
    "trail format §11",
    ("trail/reading/operations.py: _with_large",),
    ("test_large_objects_belong_to_the_after_image_but_of_a_delete",),
)
NUMBERED_VALUES: Final = Assumption(
    "numbered-values",
    _TRAILS,
    "A value of a table that nothing defines is what its bytes look like: text behind a length, a date time, padded text, an integer, else hexadecimal digits",
    "the bytes alone do not tell the type",
    "trail format §10.2",
    ("trail/values/undefined_tables.py: _bare", "trail/values/undefined_tables.py: _counted"),
    (
        "data/postgresql-insert",
        "data/bytes-that-are-no-text",
        "test_a_value_is_shown_as_its_bytes_look",
    ),
)
USER_TOKEN_LAYOUT: Final = Assumption(
    "user-token-layout",
    _TRAILS,
    "User tokens are name, zero byte, value, zero byte, one behind the other",
    "the limits of names and of all of them are documented, the layout is not",
    "trail format §9",
    ("trail/reading/user_tokens.py: read_user_tokens",),
    (
        "test_user_tokens_stand_behind_the_others_in_the_map",
        "test_what_does_not_fit_is_not_read",
    ),
)
DDL_ESCAPES: Final = Assumption(
    "ddl-escapes",
    _TRAILS,
    "In the fields of a DDL record a backslash in front of a quote, comma, equals sign, parenthesis or backslash is an escape",
    "that these are escaped is documented, how is not",
    "trail format §10.6",
    ("trail/format/ddl.py: _ESCAPED",),
    ("test_quotes_in_a_statement_are_read_with_and_without_escapes",),
)
ENCRYPTED_DATA: Final = Assumption(
    "encrypted-data",
    _TRAILS,
    "A trail whose data areas are no lists of columns, though its records are framed well, is encrypted",
    "data areas alone are encrypted; what the header says of it is not public",
    "trail format §13",
    ("trail/reading/encryption.py: explained",),
    ("test_an_encrypted_trail_is_told",),
)
PARTITION_INDEXES: Final = Assumption(
    "partition-indexes",
    _TRAILS,
    "With the partition bit 80 a second index of two bytes follows the table's",
    "the bit is printed, the bytes are blanked",
    "trail format §5.4",
    ("trail/format/record_header.py: BY_PARTITION",),
    ("test_a_partition_index_stands_behind_the_table_index",),
)

CENTURY: Final = Assumption(
    "century",
    _MESSAGES,
    "Two-digit years 00 to 49 are 20xx, 50 to 99 are 19xx",
    "not documented",
    "",
    ("columnar/temporal.py: PIVOT",),
    ("test_a_format_reads_its_value",),
)
MISSING_DATE_PARTS: Final = Assumption(
    "missing-date-parts",
    _MESSAGES,
    "A part that a date format lacks is 1970, 01, 01 and midnight",
    "not documented",
    "",
    (
        "columnar/temporal.py: MISSING_YEAR",
        "columnar/temporal.py: MISSING_MONTH",
        "columnar/temporal.py: MISSING_DAY",
    ),
    ("test_a_format_reads_its_value",),
)
COMMIT_ZONE: Final = Assumption(
    "commit-zone",
    _MESSAGES,
    "Commit times without a zone are UTC",
    "not documented",
    "",
    ("columnar/temporal.py: COMMIT_ZONE",),
    ("test_default_times_equal_the_naive_reading",),
)
EPOCH_MILLISECONDS: Final = Assumption(
    "epoch-milliseconds",
    _MESSAGES,
    "A commit time of 10 to 17 digits, without a format, is milliseconds since 1970",
    "the form of JMSTimestamp",
    "",
    ("columnar/temporal.py: EPOCH_DIGITS",),
    ("test_milliseconds_are_read_without_a_format",),
)
ANY_FRACTION: Final = Assumption(
    "any-fraction",
    _MESSAGES,
    "A fraction at the end of a date format takes any number of digits",
    "fields of two lengths share a documented format",
    "",
    ("columnar/datetime_formats.py: compile_format",),
    ("test_a_format_reads_its_value",),
)
DEFAULT_DELIMITERS: Final = Assumption(
    "default-delimiters",
    _MESSAGES,
    "Comma and line feed are the default delimiters",
    "not documented; [0007](decisions/0007-delimiters.md)",
    "",
    ("messages/properties/delimited.py",),
    ("test_the_least_file_takes_defaults_and_says_which",),
)
TRUNCATE_VALUE: Final = Assumption(
    "truncate-value",
    _MESSAGES,
    "`delim.optype.truncateval`, default `T`",
    "how the adapter learns of a truncate is not documented",
    "",
    ("messages/properties/delimited.py",),
    ("test_every_row_is_found_by_its_names_and_is_whole",),
)
EMPTY_IS_NULL: Final = Assumption(
    "empty-is-null",
    _MESSAGES,
    "Without a null indicator an empty field outside quotes is NULL",
    "not documented; [0006](decisions/0006-empty-is-null.md)",
    "",
    ("messages/delimited/field_values.py: _nulls",),
    ("escapes.toml: without an indicator an empty field is NULL and a quoted one empty text",),
)
HEADERS_WITHOUT_CASE: Final = Assumption(
    "headers-without-case",
    _MESSAGES,
    "Header names are compared without case",
    "the manual's own samples need it",
    "",
    ("messages/parsing/value_sources.py: _header_value",),
    ("sources.toml: message headers, in any case",),
)
MESSAGE_IDS: Final = Assumption(
    "message-ids",
    _MESSAGES,
    "`jms.id`: `ogg` is `GG_ID`, `wmq` and `activemq` are `JMSMessageID`, `time` is the position",
    "names of the providers' headers; no clock is read",
    "",
    (
        "messages/parsing/value_sources.py: MESSAGE_ID_HEADERS",
        "messages/parsing/value_sources.py: optional",
    ),
    ("test_jms_id_says_which_header_is_the_message_id",),
)
EQUAL_SEQUENCE_IDS: Final = Assumption(
    "equal-sequence-ids",
    _MESSAGES,
    "Equal sequence ids are captured",
    "[0005](decisions/0005-sequence-ids.md)",
    "",
    ("messages/transactions/bounds.py: _check_lengths",),
    ("message-is-transaction.toml: equal sequence ids are captured, none is skipped",),
)
ALL_COLUMNS_KEY: Final = Assumption(
    "all-columns-key",
    _MESSAGES,
    "All columns are the key where none is marked",
    "GoldenGate does so; [0008](decisions/0008-keys.md)",
    "",
    ("model/tables.py: keys",),
    ("test_all_columns_are_the_key_where_none_is_marked",),
)
USERDEFS_ALIKE: Final = Assumption(
    "userdefs-alike",
    _MESSAGES,
    "`delim.userdefs.*` are named and written as `fixed.userdefs.*` are",
    "the chapter says only that delimited definitions may be user defined",
    "",
    ("definitions/userdefs.py: userdefs",),
    ("tests/messages/properties/test_userdefs.py",),
)
FIXED_LINES: Final = Assumption(
    "fixed-lines",
    _MESSAGES,
    "A fixed-width message holds a record a line; a carriage return in front of the line feed does not count",
    "the samples show a record a line",
    "capture properties §13.13",
    ("cobol/records/framing.py: _lines_in",),
    ("records.toml: a line each, whether the last one ends or not",),
)
FIXED_CHARACTERS: Final = Assumption(
    "fixed-characters",
    _MESSAGES,
    "Places and lengths count characters in UTF-8, and bytes where a field is binary or the code page another",
    "JMS text is characters; a copybook counts bytes",
    "",
    ("messages/fixed_width/format.py: _characters",),
    ("records.toml: text that is not ASCII",),
)
FIXED_PADDING: Final = Assumption(
    "fixed-padding",
    _MESSAGES,
    "Blanks behind a text are padding and no part of it; those around a metadata field neither",
    "the sample table names are padded",
    "capture properties §5.1",
    ("messages/fixed_width/records.py: utf8_trim",),
    ("published.toml: the six sample records of section 5.2.4",),
)
FIXED_BLANKS: Final = Assumption(
    "fixed-blanks",
    _MESSAGES,
    "Blanks are no number and no date; `fixed.blank=null` makes them NULL",
    "a conversion failure abends",
    "capture properties §4",
    ("messages/properties/fixed_width.py: fixed.blank",),
    ("values.toml: blanks in a number or a date stop the message",),
)
FIXED_SURPLUS: Final = Assumption(
    "fixed-surplus",
    _MESSAGES,
    "Behind the last column and its filler only blanks may follow",
    "not documented",
    "capture properties §13.12",
    ("messages/fixed_width/plans.py: _not_blank",),
    ("records.toml: blanks behind a record do not count, anything else does",),
)
FIXED_NAMES: Final = Assumption(
    "fixed-names",
    _MESSAGES,
    "Without `fixed.schema` the table of a copybook has a name of one part; hyphens stay in names",
    "not documented",
    "capture properties §5.1",
    ("messages/fixed_width/schema.py: prefix",),
    ("published.toml: examples 5-3 and 5-4",),
)
FIXED_HEADER_NAMES: Final = Assumption(
    "fixed-header-names",
    _MESSAGES,
    "A header field with the name of one of the record is a column qualified by the header",
    "the rule of copybook columns, applied once more",
    "",
    ("messages/fixed_width/options.py: _table_of",),
    ("values.toml: a header field with the name of a record's is qualified by the header",),
)
FIXED_REDEFINES: Final = Assumption(
    "fixed-redefines",
    _MESSAGES,
    "A field that redefines another is no column",
    "its bytes are a column already, and seldom both are values",
    "capture properties §13.5",
    ("messages/fixed_width/layouts.py: _without_redefinitions",),
    ("records.toml: a redefinition is a column only if asked for",),
)
FIXED_DEPENDING: Final = Assumption(
    "fixed-depending",
    _MESSAGES,
    "An OCCURS DEPENDING ON stands last in its record; elements that a record does not reach are missing",
    "compilers differ in whether what is behind it moves",
    "capture properties §13.5",
    ("messages/fixed_width/schema.py: _check_depending",),
    ("test_a_field_behind_one_that_varies_is_refused",),
)
FIXED_BINDING: Final = Assumption(
    "fixed-binding",
    _MESSAGES,
    "Fields of a header from a definitions file or the properties bind themselves to the metadata whose name they have",
    "the printed example has no lines that bind them",
    "capture properties §5.3",
    ("messages/fixed_width/schema.py: binds",),
    ("test_what_binds_itself_is_a_field_of_a_definitions_header_alone",),
)
FIXED_USERDEFS: Final = Assumption(
    "fixed-userdefs",
    _MESSAGES,
    "Columns of a table in `fixed.userdefs` stand one behind the other",
    "header widths are simply summed",
    "capture properties §5.3",
    ("messages/fixed_width/layouts.py: in_a_row",),
    ("values.toml: columns of a table in the properties stand one behind the other",),
)
GENDEF_HEADER: Final = Assumption(
    "gendef-header",
    _MESSAGES,
    "gendef writes version 2.0 with the character sets of our trails and no database type",
    "the header that gendef itself writes is not public",
    "capture properties §8",
    ("definitions/gendef.py: GENERATED",),
    ("test_tables_of_the_properties_become_a_definitions_file",),
)

LOGDUMP_COMMENTS: Final = Assumption(
    "logdump-comments",
    _TRAILS,
    "A comment record of Logdump's SAVE holds its text as data",
    "the type (205) is public, its layout is not",
    "trail format §7",
    ("logdump/commands/saving.py: _comment",),
    ("test_save_changes_indicators_and_adds_comments",),
)
PARTITION_NAMES: Final = Assumption(
    "partition-names",
    _TRAILS,
    "Behind its name a partition name record has a u64 id and u32 flags",
    "the record's printed length leaves 12 bytes for the two printed facts",
    "trail format §12",
    ("logdump/printing/metadata_text.py: PARTITION_TAIL",),
    ("test_a_record_comes_out_as_it_was_printed",),
)

ASSUMPTIONS: Final[tuple[Assumption, ...]] = tuple(
    row for row in tuple(globals().values()) if isinstance(row, Assumption)
)

_HEAD: Final = """\
# What we assume

Public documents and dumps leave some things open. Each such thing stands in one place in the code, in one row of `model/assumptions.py`, and in one row
here: `trailgate assumptions --markdown` prints this page. Trail cases marked `assumed = true` and tests of assumptions carry the pytest mark
`assumed`: `pytest -m assumed` runs them alone. "none yet" says that no test names the assumption.
"""
_COLUMNS: Final = ("name", "assumption", "why", "source", "where", "tests")


def as_markdown() -> str:
    """Return the page docs/assumptions.md."""
    parts = [_HEAD]
    for area in Area:
        rows = [_row(row) for row in ASSUMPTIONS if row.area is area]
        head = [_line(_COLUMNS), _line(["---"] * len(_COLUMNS))]
        parts.append("\n".join([f"## {area.value}", "", *head, *rows]) + "\n")
    return "\n".join(parts)


def _row(row: Assumption) -> str:
    where = ", ".join(f"`{place}`" for place in row.where)
    tests = ", ".join(f"`{name}`" for name in row.tests) or "none yet"
    return _line([row.name, row.statement, row.why, row.source, where, tests])


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
