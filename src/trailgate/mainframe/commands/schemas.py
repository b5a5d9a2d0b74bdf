"""Schemas of records as other tools take them: JSON of Spark, Python that makes Arrow's, CREATE TABLE, and JSON Schema of the JSON that is printed.

Types are those of the Arrow schema; what else is stated of an item comes from the metadata of its field (``cobol.records.described``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from trailgate.apply.effects.tables import TargetColumn, TargetTable, fold_name
from trailgate.apply.targets.ddl import POSTGRESQL
from trailgate.errors import OptionError, Where
from trailgate.terminal.columns import json_text

Schemas = Mapping[str, pa.Schema]
DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
DIGITS: Final = r"^-?[0-9]+$"
DECIMAL: Final = r"^-?[0-9]+(\.[0-9]+)?(E[+-]?[0-9]+)?$"
HEX: Final = "^([0-9a-f]{2})*$"
# Items whose length bounds that of their text: the bytes of a character, at least.
_CHARACTER: Final = {"text": 1, "national": 2, "utf-8": 1, "dbcs": 1}


def spark_text(schemas: Schemas) -> str:
    """Return JSON that ``StructType.fromJson`` takes; of several records an object with one for each."""
    from trailgate.spark.sources import spark_schema

    made = {name: spark_schema(schema).jsonValue() for name, schema in schemas.items()}
    return _json(next(iter(made.values())) if len(made) == 1 else made)


def arrow_text(schemas: Schemas) -> str:
    """Return Python that makes the schema, as ``schema``; of several records a dictionary, as ``schemas``."""
    made = {name: f"pa.schema({_fields(schema, '')})" for name, schema in schemas.items()}
    if len(made) == 1:
        return f"import pyarrow as pa\n\nschema = {next(iter(made.values()))}"
    lines = [f"schemas[{json_text(name)}] = {text}" for name, text in made.items()]
    return "\n".join(["import pyarrow as pa\n\nschemas = {}", *lines])


def sql_text(schemas: Schemas) -> str:
    """Return a CREATE TABLE for each record, as tables of PostgreSQL are created by an apply."""
    tables = (_target(name, schema) for name, schema in schemas.items())
    return "\n\n".join(
        f"{POSTGRESQL.creation(table, (fold_name(str(table)),))};" for table in tables
    )


def json_schema_text(schemas: Schemas) -> str:
    """Return JSON Schema of the lines that ``trailgate records --format json`` prints; of several records each is in ``$defs``."""
    made = {name: {"title": name, **_object(schema)} for name, schema in schemas.items()}
    if len(made) == 1:
        return _json({"$schema": DRAFT, **next(iter(made.values()))})
    refs = [{"$ref": f"#/$defs/{name}"} for name in made]
    return _json({"$schema": DRAFT, "anyOf": refs, "$defs": made})


FORMS: Final[Mapping[str, Callable[[Schemas], str]]] = {
    "spark": spark_text,
    "arrow": arrow_text,
    "sql": sql_text,
    "json-schema": json_schema_text,
}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _fields(fields: pa.Schema | pa.StructType, indent: str) -> str:
    inner = f"{indent}    "
    lines = "".join(f"{inner}{_field(field, inner)},\n" for field in fields)
    return f"[\n{lines}{indent}]"


def _field(field: pa.Field, indent: str) -> str:
    words = [json_text(field.name), _type(field.type, indent)]
    words += [] if field.nullable else ["nullable=False"]
    words += [f"metadata={json_text(_facts(field))}"] if field.metadata else []
    return f"pa.field({', '.join(words)})"


def _type(kind: pa.DataType, indent: str) -> str:
    if pa.types.is_struct(kind):
        return f"pa.struct({_fields(kind, indent)})"
    if pa.types.is_list(kind):
        return f"pa.list_({_field(kind.value_field, indent)})"
    if pa.types.is_decimal(kind):
        return f"pa.decimal128({kind.precision}, {kind.scale})"
    return f"pa.{'float64' if pa.types.is_float64(kind) else kind}()"


def _facts(field: pa.Field) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in (field.metadata or {}).items()}


def _characters(facts: Mapping[str, str]) -> int | None:
    """Return the most characters that an item's text has; None where that is not known."""
    size = _CHARACTER.get(facts.get("usage", ""))
    return None if size is None else int(facts["length"]) // size


def _target(name: str, schema: pa.Schema) -> TargetTable:
    """Return the table of flat records; raises OptionError for a column that is nested."""
    columns, keys = [], []
    for at, field in enumerate(schema):
        if pa.types.is_nested(field.type):
            problem = "a column of lists or structs, which a table of SQL does not have"
            where = Where(table=name, field=field.name)
            raise OptionError(problem, where=where, hint="Is it shape=flat, without errors=column?")
        facts = _facts(field)
        length = _characters(facts) if pa.types.is_string(field.type) else None
        columns.append(TargetColumn(fold_name(field.name), field.type, length=length))
        keys += [at] if "key" in facts else []
    return TargetTable((name,), tuple(columns), tuple(keys), keyless=not keys)


def _object(fields: pa.Schema | pa.StructType, *, nested: bool = False) -> dict[str, Any]:
    members = {field.name: _member(field, nested=nested) for field in fields}
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def _member(field: pa.Field, *, nested: bool) -> dict[str, Any]:
    facts = _facts(field)
    described = {"description": facts["comment"]} if "comment" in facts else {}
    return _nullable(field, _form(field.type, facts, nested=nested)) | described


def _nullable(field: pa.Field, form: dict[str, Any]) -> dict[str, Any]:
    return form | {"type": [form["type"], "null"]} if field.nullable else form


def _form(kind: pa.DataType, facts: Mapping[str, str], *, nested: bool) -> dict[str, Any]:
    """Return how values are printed as JSON: decimals with places are text, and so are all that are nested."""
    if pa.types.is_struct(kind):
        return _object(kind, nested=True)
    if pa.types.is_list(kind):
        items = _nullable(kind.value_field, _form(kind.value_type, facts, nested=True))
        return {"type": "array", "items": items}
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and not (nested or kind.scale)):
        return {"type": "integer"}
    if pa.types.is_floating(kind):
        return {"type": "number"}
    return {"type": "string"} | _bounds(kind, facts)


def _bounds(kind: pa.DataType, facts: Mapping[str, str]) -> dict[str, Any]:
    """Return what a text can be: digits, bytes in hex, or an item's text."""
    if pa.types.is_decimal(kind):
        return {"pattern": DECIMAL if kind.scale else DIGITS}
    if pa.types.is_binary(kind):
        return {"pattern": HEX}
    most = _characters(facts)
    return {} if most is None else {"maxLength": most}
