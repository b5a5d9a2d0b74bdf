"""Extract parameter files: what is used is typed, what is not is listed, what is wrong is placed."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailgate.errors import OptionError
from trailgate.messages.properties.extract import CaptureRules, parse_extract

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
    assert parameters.exttrail == "dirdat/id"
    assert parameters.tables == ("OGG.*",)
    assert parameters.rules == CaptureRules(tables=("OGG.*",))
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


def test_further_items_of_params_are_listed() -> None:
    parameters = parse_extract("EXTRACT g\nVAM lib.so, PARAMS (a.properties, b.ini)")

    assert parameters.unused == ((2, "b.ini", "only the first item of PARAMS is used"),)


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
    ],
)
def test_switches_set_the_capture_rules(written: str, rules: CaptureRules) -> None:
    assert parse_extract(LEAST + written).rules == rules


def test_a_table_goes_on_to_its_semicolon() -> None:
    parameters = parse_extract(
        LEAST
        + 'TABLE OGG.A,\n  COLS (X, Y)\n;\nTABLE "My Shop"."a;b"; TABLE S.T?;\nTABLEEXCLUDE S.TX'
    )

    assert parameters.tables == ("OGG.A", '"My Shop"."a;b"', "S.T?")
    assert parameters.excluded == ("S.TX",)
    assert parameters.unused == ((3, "COLS (X, Y)", "option is not used"),)


def test_comments_are_passed_over() -> None:
    text = "-- first\nCOMMENT TABLE A.B;\n" + LEAST + "SETENV (X='a--b') -- there\nTABLE A.C; --x"

    parameters = parse_extract(text)

    assert parameters.tables == ("A.C",)
    assert [text for _, text, _ in parameters.unused] == ["SETENV (X='a--b')"]


def test_an_unknown_parameter_is_listed_with_the_nearest() -> None:
    parameters = parse_extract(LEAST + "GETUPDATEBEFORE")

    assert parameters.unused == (
        (3, "GETUPDATEBEFORE", "unknown parameter; did you mean GETUPDATEBEFORES?"),
    )


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
    [*"*.,;&()\"'\na", "--", "A.*", "VAM", "PARAMS", "EXTTRAIL", "TABLE", "TABLEEXCLUDE", "COMMENT"]
)


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


def test_the_format_of_the_trail_is_taken() -> None:
    text = LEAST + (
        "EXTTRAIL dirdat/id, FORMAT RELEASE 12.2, MEGABYTES 5\n"
        "TRAILBYTEORDER LITTLEENDIAN\nUPDATERECORDFORMAT COMPACT\n"
    )

    found = parse_extract(text)

    assert (found.exttrail, found.format_release) == ("dirdat/id", "12.2")
    assert (found.byte_order, found.update_format) == ("little", "compact")
    assert [text for _, text, _ in found.unused] == ["MEGABYTES 5"]
