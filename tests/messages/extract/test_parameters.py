"""Extract parameter files: what is used is typed, what is not is listed, what is wrong is placed."""

import itertools
import pickle
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trailgate.errors import OptionError
from trailgate.expressions.capture_rules import CaptureRules, TableRule
from trailgate.expressions.extract_files import OBEYED, parse_extract
from trailgate.expressions.syntax import TextLiteral
from trailgate.expressions.unsupported_of_extract import NOTED, REFUSED
from trailgate.expressions.values import GetenvValues

LEAST = "EXTRACT jmsvam\nVAM lib.so, PARAMS a.properties\n"
MANUAL = """EXTRACT jmsvam
VAM ggjava_vam.dll, PARAMS dirprm/jmsvam.properties
TRANLOGOPTIONS VAMCOMPATIBILITY 1
TRANLOGOPTIONS GETMETADATAFROMVAM
EXTTRAIL dirdat/id
TABLE OGG.*;
"""


def test_the_manuals_file_is_understood() -> None:
    parameters = parse_extract(MANUAL)

    assert parameters.group == "jmsvam"
    assert parameters.properties_path == "dirprm/jmsvam.properties"
    assert parameters.trail == "dirdat/id"
    assert parameters.tables == (TableRule("OGG.*"),)
    assert parameters.rules.environment.group == "jmsvam"
    assert [(line, text) for line, text, _ in parameters.unused] == [
        (3, "TRANLOGOPTIONS VAMCOMPATIBILITY 1"),
        (4, "TRANLOGOPTIONS GETMETADATAFROMVAM"),
    ]


@pytest.mark.parametrize(
    "vam",
    [
        "VAM lib.so, PARAMS dirprm/a.properties",
        "vam lib.so params dirprm/a.properties",
        "VAM lib.so, PARAMS (dirprm/a.properties)",
        'VAM "my lib.so", PARAMS "dirprm/a.properties"',
        "VAM lib.so, &\n  PARAMS dirprm/a.properties",
        "VAM lib.so, PARAMS dirprm/a.properties -- a comment",
        "VAM params.so, PARAMS dirprm/a.properties",
    ],
)
def test_vam_names_the_properties_file(vam: str) -> None:
    parameters = parse_extract(f"EXTRACT g\n{vam}\n")

    assert parameters.properties_path == "dirprm/a.properties"
    assert parameters.unused == ()


def test_further_items_of_params_are_refused() -> None:
    with pytest.raises(OptionError, match=r"b\.ini is not supported: only the first item"):
        parse_extract("EXTRACT g\nVAM lib.so, PARAMS (a.properties, b.ini)")


@pytest.mark.parametrize(
    ("written", "rules"),
    [
        ("", CaptureRules()),
        ("NOCOMPRESSUPDATES", CaptureRules(compress_updates=False)),
        ("nocompressupdates\ncompressupdates", CaptureRules()),
        ("GETUPDATEBEFORES", CaptureRules(update_befores=True)),
        ("GETUPDATEBEFORES\nIGNOREUPDATEBEFORES", CaptureRules()),
        ("NOCOMPRESSDELETES", CaptureRules(compress_deletes=False)),
        ("NOCOMPRESSDELETES\nCOMPRESSDELETES", CaptureRules()),
        ("EXCLUDEUSER bad", CaptureRules(users=("bad",))),
        ("TRANLOGOPTIONS EXCLUDEUSER a EXCLUDEUSER b", CaptureRules(users=("a", "b"))),
        ("TRANLOGOPTIONS EXCLUDETRANS nightly", CaptureRules(transactions=("nightly",))),
    ],
)
def test_switches_set_the_capture_rules(written: str, rules: CaptureRules) -> None:
    around = GetenvValues(group="jmsvam")
    assert parse_extract(LEAST + written).rules == replace(rules, environment=around)


def test_a_table_goes_on_to_its_semicolon() -> None:
    parameters = parse_extract(
        LEAST
        + 'TABLE OGG.A,\n  COLS (X, Y)\n;\nTABLE "My Shop"."a;b"; TABLE S.T?;\nTABLEEXCLUDE S.TX'
    )

    assert [rule.pattern for rule in parameters.tables] == ["OGG.A", '"My Shop"."a;b"', "S.T?"]
    assert parameters.tables[0].columns == ("X", "Y")
    assert parameters.excluded == ("S.TX",)


def test_comments_are_passed_over() -> None:
    text = "-- first\nCOMMENT TABLE A.B;\n" + LEAST + "SETENV (X='a--b') -- there\nTABLE A.C; --x"

    parameters = parse_extract(text)

    assert parameters.tables == (TableRule("A.C"),)
    assert [text for _, text, _ in parameters.unused] == ["SETENV (X='a--b')"]


def test_an_unknown_parameter_is_refused_with_the_nearest() -> None:
    with pytest.raises(OptionError) as caught:
        parse_extract(LEAST + "GETUPDATEBEFORE")

    assert caught.value.problem == (
        "GETUPDATEBEFORE is not supported: unknown parameter; did you mean GETUPDATEBEFORES?"
    )
    assert caught.value.where.line == 3


@pytest.mark.parametrize(
    "line",
    [
        "ENCRYPTTRAIL AES192",
        "COLMATCH PREFIX A_",
        "TRANLOGOPTIONS EXCLUDETAG 00",
        "EXTTRAIL dirdat/id, PURGE",
        "EXTTRAIL dirdat/id, FORMAT LEVEL 3",
        "TABLE A.B, SQLEXEC (id x);",
        "TABLE A.B, COLMAP (USEDEFAULTS);",
        "TABLE A.B, TARGET C.D;",
        "TABLEEXCLUDE A.B, X",
        "IGNOREREPLICATES",
        "BATCHSQL",
        "TRANLOGOPTIONS DBLOGREADER, FILTERTABLE ggs.chk",
        "TABLE A.B, HANDLECOLLISIONS;",
        "WHATEVER",
    ],
)
def test_what_would_change_the_data_is_refused_or_listed(line: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_extract(LEAST + line, "e.prm")
    ignored = parse_extract(LEAST + line, ignore_unsupported=True).ignored

    assert " is not supported: " in caught.value.problem
    assert (caught.value.where.source, caught.value.where.line) == ("e.prm", 3)
    assert "--ignore-unsupported" in caught.value.hint
    assert [remark.line for remark in ignored] == [3]


def test_a_refusal_counts_the_others() -> None:
    with pytest.raises(OptionError, match="2 more in this file are not supported"):
        parse_extract(LEAST + "ENCRYPTTRAIL\nCOLMATCH x\nMAP y;")


def test_every_parameter_is_obeyed_noted_or_refused() -> None:
    kinds = [OBEYED, set(NOTED), set(REFUSED)]

    assert all(not one & other for one, other in itertools.combinations(kinds, 2))


def test_operations_are_ignored_from_there_on() -> None:
    text = "IGNOREINSERTS\nIGNORETRUNCATES\nTABLE A.A;\nGETINSERTS\nIGNOREDELETES\nTABLE A.B;"

    found = parse_extract(LEAST + text).tables

    assert [rule.ignored for rule in found] == ["IT", "DT"]


def test_a_switch_after_a_table_is_an_error() -> None:
    with pytest.raises(
        OptionError, match="GETUPDATEBEFORES would not apply to the TABLE before it, in line 3"
    ):
        parse_extract(LEAST + "TABLE A.B;\nGETUPDATEBEFORES")
    parse_extract(LEAST + "TABLE A.B;\nIGNOREUPDATEBEFORES")


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("A.B, FILTER (X >)", "expected a column, a literal or a function"),
        ("A.B, FILTER (X = 1", "no closing parenthesis after FILTER"),
        ("A.B, FILTER", "expected parentheses after FILTER"),
        ("A.B, KEYCOLS ()", "expected parentheses after KEYCOLS"),
        ("A.B, KEYCOLS (A = 1)", None),
        ("A.B, COLS (A), COLSEXCEPT (B)", "COLS and COLSEXCEPT cannot be combined"),
        ("A.B, COLS (A), COLS (B)", "COLS is given twice"),
        ("A.B, TOKENS (X)", "expected NAME = value in TOKENS"),
        ("A.B, TOKENS (X = 1, X = 2)", "the token X is given twice"),
        ("A.B, TOKENS (X = @GETENV ('RECORD'))", "@GETENV does not know ''"),
        ("A.B, ()", "expected an option"),
    ],
)
def test_a_wrong_option_of_a_table_is_placed(table: str, says: str | None) -> None:
    if says is None:
        assert parse_extract(f"{LEAST}TABLE {table};").tables[0].key == ("A", "=", "1")
        return
    with pytest.raises(OptionError) as caught:
        parse_extract(f"{LEAST}TABLE {table};", "e.prm")

    assert says in caught.value.problem
    assert (caught.value.where.source, caught.value.where.line) == ("e.prm", 3)


def test_a_filter_limits_itself_to_operations() -> None:
    table = (
        "TABLE A.B, FILTER (ON INSERT, ON UPDATE, X = 1), FILTER (IGNORE DELETE, Y IN), WHERE (Z=1)"
    )

    with pytest.raises(OptionError, match="expected the end, found 'IN'"):
        parse_extract(f"{LEAST}{table};")
    found = parse_extract(f"{LEAST}{table.replace('Y IN', 'Y > 0')};").tables[0].conditions

    assert [(one.clause, one.operations) for one in found] == [
        ("FILTER", "IU"),
        ("FILTER", "IU"),
        ("WHERE", "IUD"),
    ]


def test_definitions_and_variables_are_taken() -> None:
    found = parse_extract(LEAST + "SOURCEDEFS dirdef/a.def\nSETENV (REGION = 'north')")

    assert found.sourcedefs == "dirdef/a.def"
    assert found.environment == (("REGION", "north"),)


@pytest.mark.parametrize(
    ("pattern", "name", "wanted"),
    [
        ("OGG.*", "ogg.Customers", True),
        ("OGG.*", "OGG2.CUSTOMERS", False),
        ("*.*", "A.B", True),
        ("*", "A.B", True),
        ("A.T?", "A.T1", True),
        ("A.T?", "A.T", False),
        ("A.T?", "A.T12", False),
        ("A.[T]", "A.T", False),
        ('"My Shop"."Order Lines"', "My Shop.Order Lines", True),
        ("S.*", 'S."a.b"', True),
        ("S.T", "C.S.T", True),
        ("C.S.T", "S.T", False),
        ("C*.S.T", "CAT.S.T", True),
    ],
)
def test_tables_are_wanted_by_pattern(pattern: str, name: str, wanted: bool) -> None:
    assert CaptureRules(tables=(pattern,)).wants(name) is wanted


def test_an_excluded_table_is_not_wanted() -> None:
    rules = parse_extract(LEAST + "TABLEEXCLUDE A.TMP*;\nTABLE A.*;").rules

    assert (rules.wants("A.T"), rules.wants("A.TMP1")) == (True, False)


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("", "no EXTRACT parameter", None),
        ("EXTRACT g", "no VAM parameter", None),
        ("EXTRACT", "expected a group name", 1),
        ("EXTRACT g\nEXTRACT h", "EXTRACT is given twice", 2),
        ("EXTRACT g\nVAM lib.so", "expected PARAMS", 2),
        ("EXTRACT g\nVAM lib.so, PARAMS", "expected a properties file", 2),
        ('EXTRACT g\nVAM lib.so, PARAMS ""', "expected a properties file", 2),
        ("EXTRACT g\nVAM lib.so, PARAMS (a", "no closing parenthesis", 2),
        (LEAST + "EXTTRAIL", "expected a trail", 3),
        (LEAST + "TRAILBYTEORDER ODD", "expected one of BIGENDIAN, LITTLEENDIAN, found ODD", 3),
        (LEAST + "EXTTRAIL a\nEXTTRAIL b", "EXTTRAIL is given twice", 4),
        (LEAST + "TABLE A.B", "expected ';', found the end of the file", 3),
        (LEAST + "TABLE ;", "expected a table name", 3),
        (LEAST + "TABLE B;", "expected SCHEMA.TABLE", 3),
        (LEAST + "TABLE A..B;", "expected SCHEMA.TABLE", 3),
        (LEAST + "SETENV &", "expected a line after '&'", 3),
        (LEAST + "TRANLOGOPTIONS (", "( has no counterpart", 3),
        (LEAST + "TRANLOGOPTIONS EXCLUDEUSER 'gg", "' has no counterpart", 3),
        (LEAST + "EXCLUDEUSER ''", "expected a user, found ''", 3),
        ("EXTRACT ''", "expected a group name, found ''", 1),
        (LEAST + "TRANLOGOPTIONS ,", "expected an option", 3),
        (
            LEAST + "TRANLOGOPTIONS EXCLUDEUSER (a)",
            "expected a name after EXCLUDEUSER, found (a)",
            3,
        ),
        (
            LEAST + "TRANLOGOPTIONS EXCLUDETRANS ''",
            "expected a name after EXCLUDETRANS, found ''",
            3,
        ),
    ],
)
def test_a_wrong_file_is_placed(text: str, says: str, line: int | None) -> None:
    with pytest.raises(OptionError) as caught:
        parse_extract(text, "jmsvam.prm")

    assert says in caught.value.problem
    assert (caught.value.where.source, caught.value.where.line) == ("jmsvam.prm", line)


def test_parameters_and_rules_survive_pickling() -> None:
    parameters = parse_extract(MANUAL)

    assert pickle.loads(pickle.dumps(parameters)) == parameters
    assert pickle.loads(pickle.dumps(parameters.rules)) == parameters.rules


WORDS = st.sampled_from(
    [
        *"*.,;&()\"'\na=@",
        "--",
        "FILTER",
        "TOKENS",
        "KEYCOLS",
        "EXCLUDEUSER",
        "TRANLOGOPTIONS",
        "A.*",
        "VAM",
        "PARAMS",
        "EXTTRAIL",
        "TABLE",
        "TABLEEXCLUDE",
        "COMMENT",
    ]
)


@example(text="", whole=True)
@given(st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=20).map(" ".join)), st.booleans())
def test_any_text_is_parameters_or_our_error(text: str, whole: bool) -> None:
    try:
        parameters = parse_extract((LEAST if whole else "") + text, "x.prm")
    except OptionError as error:
        refusal = error
    else:
        assert parameters.rules.wants("A.B") in (True, False)
        return

    assert refusal.where.source == "x.prm"
    assert text or not whole


def test_the_format_of_the_trail_is_taken() -> None:
    text = LEAST + (
        "EXTTRAIL dirdat/id, FORMAT RELEASE 12.2, MEGABYTES 5\n"
        "TRAILBYTEORDER LITTLEENDIAN\nUPDATERECORDFORMAT COMPACT\n"
    )

    found = parse_extract(text)

    assert (found.trail, found.format_release) == ("dirdat/id", "12.2")
    assert (found.byte_order, found.update_format) == ("little", "compact")
    assert (found.max_bytes, found.unused) == (5_000_000, ())


@pytest.mark.parametrize("keyword", ["EXTTRAIL", "EXTFILE", "RMTTRAIL", "RMTFILE"])
def test_every_kind_of_trail_has_its_format(keyword: str) -> None:
    found = parse_extract(f"{LEAST}{keyword} dirdat/id, FORMAT RELEASE 9.5, MAXFILES 3, APPEND")

    assert (found.trail, found.format_release) == ("dirdat/id", "9.5")


def test_recovery_options_are_noted() -> None:
    found = parse_extract(LEAST + "RECOVERYOPTIONS OVERWRITEMODE")

    assert [text for _, text, _ in found.unused] == ["RECOVERYOPTIONS OVERWRITEMODE"]
    with pytest.raises(OptionError, match="expected APPENDMODE or OVERWRITEMODE"):
        parse_extract(LEAST + "RECOVERYOPTIONS SOMEMODE")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (
            "PASSTHRU\nRMTHOST h, MGRPORT 7809\nRMTTRAIL dirdat/rt\nTABLE A.*;",
            "PASSTHRU belongs to an Extract that pumps a trail",
        ),
        (
            "RMTHOST h, MGRPORT 7809\nTABLE A.*;",
            "RMTHOST h, MGRPORT 7809 belongs to an Extract that sends a trail",
        ),
        (
            "USERIDALIAS ogg\nTRANLOGOPTIONS INTEGRATEDPARAMS (max_sga_size 256)\nTABLE A.*;",
            "USERIDALIAS ogg belongs to an Extract that reads a database's log",
        ),
        (
            "SOURCEISTABLE\nUSERID ogg\nTABLE A.*;",
            "SOURCEISTABLE belongs to an Extract that loads tables",
        ),
    ],
)
def test_an_extract_that_reads_no_messages_is_named(lines: str, says: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_extract(f"EXTRACT pump\n{lines}", "pump.prm")
    assert says in caught.value.problem
    assert caught.value.where.line == 2


def test_options_of_the_log_are_read_with_their_values() -> None:
    text = (
        "TRANLOGOPTIONS INTEGRATEDPARAMS (max_sga_size 200, parallelism 2) EXCLUDEUSER ogg, &\n"
        " ALTLOGDEST '/u01/oradata/redo' CONVERTUCS2CLOBS EXCLUDETRANS \"nightly\"\n"
        "TRANLOGOPTIONS ALTARCHIVELOGDEST INSTANCE rac1 /arch1, ALTARCHIVELOGDEST INSTANCE rac2 /arch2"
    )
    found = parse_extract(LEAST + text)

    assert (found.users, found.transactions) == (("ogg",), ("nightly",))
    assert [one.text for one in found.unused] == [
        "TRANLOGOPTIONS INTEGRATEDPARAMS (max_sga_size 200, parallelism 2)",
        "TRANLOGOPTIONS ALTLOGDEST '/u01/oradata/redo'",
        "TRANLOGOPTIONS CONVERTUCS2CLOBS",
        "TRANLOGOPTIONS ALTARCHIVELOGDEST INSTANCE rac1 /arch1",
        "TRANLOGOPTIONS ALTARCHIVELOGDEST INSTANCE rac2 /arch2",
    ]


def test_files_and_macros_are_read() -> None:
    """A statement of an included file has its own place in errors and notes."""
    files = {
        "lib": "MACRO #key PARAMS (#k) BEGIN KEYCOLS (#k) END;",
        "tables": "\nTABLE A.B, #key (ID);\nBATCHSQL",
    }
    text = LEAST + "INCLUDE lib\nOBEY tables\nREPORT"
    with pytest.raises(
        OptionError, match=r"BATCHSQL \(tables\) is not supported: it belongs to Replicat"
    ):
        parse_extract(text, "e.prm", read=files.__getitem__)
    found = parse_extract(text, read=files.__getitem__, ignore_unsupported=True)
    assert found.tables == (TableRule("A.B", key=("ID",)),)
    assert [one.text for one in (*found.ignored, *found.unused)] == ["BATCHSQL (tables)", "REPORT"]


def test_schemas_and_catalogs_are_excluded() -> None:
    lines = "SCHEMAEXCLUDE tmp\nSCHEMAEXCLUDE pdb1.old\nCATALOGEXCLUDE pdb2\nSOURCECATALOG pdb1\nTABLE A.*;\nTABLE *.*.*;"
    rules = parse_extract(LEAST + lines).rules
    names = {
        "pdb1.A.T": True,
        "pdb1.TMP.T": False,
        "pdb1.OLD.T": False,
        "pdb3.OLD.T": True,
        "pdb2.A.T": False,
    }
    assert {name: rules.wants(name) for name in names} == names
    assert rules.tables[0] == TableRule("pdb1.A.*")


def test_literals_may_be_in_double_quotes() -> None:
    (rule,) = parse_extract(LEAST + 'NOUSEANSISQLQUOTES\nTABLE A.B, FILTER (X = "NO");').tables
    (literal,) = [
        node for node in rule.conditions[0].expression.nodes() if isinstance(node, TextLiteral)
    ]
    assert literal.text == "NO"
