"""Properties to a capture, and messages given by hand, with the names that a user imports."""

from __future__ import annotations

import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

import trailgate
from trailgate.errors import DefinitionError, OptionError, TrailgateError
from trailgate.expressions.capture_rules import CaptureRules
from trailgate.jobs.capture.loading import load_with_notes

SAMPLE = Path(str(resources.files("trailgate") / "samples"))
DELETE = (
    "D,GG.JMSCAP_TCUSTMER,2026-01-07 11:03:00,T-1,BILL,NULL,"
    "BILL'S USED CARS,NULL,DENVER,NULL,CO,NULL\n"
)


@pytest.fixture(autouse=True)
def _in_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SAMPLE)


def test_messages_by_hand_are_parsed() -> None:
    capture = trailgate.load_capture("dirprm/shop.properties")
    parsed = capture.parse(trailgate.messages_from([DELETE, DELETE.encode(), "bad"]))
    assert parsed.batch.rows == 2
    assert [problem.message for problem in parsed.problems] == [2]
    assert isinstance(parsed.problems[0].error, TrailgateError)


def test_rules_go_before_the_parameter_file(tmp_path: Path) -> None:
    parameters = tmp_path / "shop.prm"
    parameters.write_text("EXTRACT a\nVAM b PARAMS dirprm/shop.properties\nNOCOMPRESSDELETES\n")
    assert not trailgate.load_capture(extract=parameters).rules.compress_deletes
    assert trailgate.load_capture(extract=parameters, rules=CaptureRules()).rules.compress_deletes


def test_parameters_without_effect_are_reported(tmp_path: Path) -> None:
    properties = tmp_path / "p.properties"
    text = (SAMPLE / "dirprm/shop.properties").read_text()
    properties.write_text(text + "java.naming.provider.url=t3://localhost:7001\n")
    assert "java.naming.provider.url" in [name for name, _ in load_with_notes(properties).notes]


def test_missing_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="properties file"):
        trailgate.load_capture(tmp_path / "absent")
    with pytest.raises(OptionError, match="definitions file"):
        trailgate.load_capture("dirprm/shop.properties", definitions=tmp_path / "absent")
    with pytest.raises(DefinitionError):
        trailgate.load_capture("dirprm/shop.properties", definitions="dirprm/shop.properties")
    with pytest.raises(OptionError, match="no properties"):
        trailgate.load_capture()


def test_the_name_alone_imports_nothing_heavy() -> None:
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}; import trailgate; "
        "sys.exit('pyarrow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_of_ours"):
        _ = trailgate.nothing_of_ours
