"""Export the schemas of records: as JSON for Spark, as Python for Arrow, as CREATE TABLE, and as JSON Schema.

Types come from the Arrow schema. Lengths, keys and comments come from the metadata of its fields,
to which the copybook's layout has added them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from trailgate.apply.effects.tables import TargetColumn, TargetTable, make_target_name
from trailgate.apply.targets.ddl import POSTGRESQL
from trailgate.errors import OptionError, Where
from trailgate.terminal.plain_values import json_text

Schemas = Mapping[str, pa.Schema]
DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
DIGITS: Final = r"^-?[0-9]+$"
DECIMAL: Final = r"^-?[0-9]+(\.[0-9]+)?$"
HEX: Final = "^([0-9a-f]{2})*$"
SPECIAL: Final = "^(NaN|-?Infinity)$"
# The smallest number of bytes per character, for items whose length limits the length of their text.
_CHARACTER: Final = {"text": 1, "national": 2, "utf-8": 1, "dbcs": 1}


def spark_text(schemas: Schemas) -> str:
    """Format record schemas as JSON for ``StructType.fromJson``; several records give an object with one schema each."""
    from trailgate.spark.schemas import spark_schema

    made = {name: spark_schema(schema).jsonValue() for name, schema in schemas.items()}
    return _json(next(iter(made.values())) if len(made) == 1 else made)


def arrow_text(schemas: Schemas) -> str:
    """Format record schemas as Python that defines ``schema``, or the dictionary ``schemas`` for several records."""
    made = {name: f"pa.schema({_fields(schema, '')})" for name, schema in schemas.items()}
    if len(made) == 1:
        return f"import pyarrow as pa\n\nschema = {next(iter(made.values()))}"
    lines = [f"schemas[{json_text(name)}] = {text}" for name, text in made.items()]
    return "\n".join(["import pyarrow as pa\n\nschemas = {}", *lines])


def sql_text(schemas: Schemas) -> str:
    """Format record schemas as CREATE TABLE statements, one per record, as apply would run them in PostgreSQL."""
    tables = (_target(name, schema) for name, schema in schemas.items())
    return "\n\n".join(
        f"{POSTGRESQL.create_statement(table, (make_target_name(str(table)),))};"
        for table in tables
    )


def json_schema_text(schemas: Schemas) -> str:
    """Format record schemas as a JSON Schema for the lines that ``trailgate records --format json`` prints.

    Several records are listed in ``$defs``.
    """
    made = {name: {"title": name, **_object(schema)} for name, schema in schemas.items()}
    if len(made) == 1:
        return _json({"$schema": DRAFT, **next(iter(made.values()))})
    refs = [{"$ref": f"#/$defs/{name}"} for name in made]
    return _json({"$schema": DRAFT, "anyOf": refs, "$defs": made})


# By the value of --to.
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


def _type(data_type: pa.DataType, indent: str) -> str:
    if pa.types.is_struct(data_type):
        return f"pa.struct({_fields(data_type, indent)})"
    if pa.types.is_list(data_type):
        return f"pa.list_({_field(data_type.value_field, indent)})"
    if pa.types.is_decimal(data_type):
        return f"pa.decimal128({data_type.precision}, {data_type.scale})"
    return f"pa.{'float64' if pa.types.is_float64(data_type) else data_type}()"


def _facts(field: pa.Field) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in (field.metadata or {}).items()}


def _characters(facts: Mapping[str, str]) -> int | None:
    """Return the maximum number of characters in an item's text, or None if it is unknown."""
    size = _CHARACTER.get(facts.get("usage", ""))
    return None if size is None else int(facts["length"]) // size


def _target(name: str, schema: pa.Schema) -> TargetTable:
    """Return the definition of a table for flat records. Raises OptionError for a nested column."""
    columns, keys = [], []
    for at, field in enumerate(schema):
        if pa.types.is_nested(field.type):
            problem = "a column of lists or structs, which SQL tables do not support"
            where = Where(table=name, field=field.name)
            raise OptionError(problem, where=where, hint="Use shape=flat, without errors=column")
        facts = _facts(field)
        length = _characters(facts) if pa.types.is_string(field.type) else None
        columns.append(TargetColumn(make_target_name(field.name), field.type, length=length))
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
    kinds = form["type"] if isinstance(form["type"], list) else [form["type"]]
    return form | {"type": [*kinds, "null"]} if field.nullable else form


def _form(data_type: pa.DataType, facts: Mapping[str, str], *, nested: bool) -> dict[str, Any]:
    """Return the JSON Schema of a printed value.

    Decimals with a scale are printed as text, and so is every decimal inside a list or struct.
    """
    if pa.types.is_struct(data_type):
        return _object(data_type, nested=True)
    if pa.types.is_list(data_type):
        items = _nullable(data_type.value_field, _form(data_type.value_type, facts, nested=True))
        return {"type": "array", "items": items}
    if pa.types.is_integer(data_type) or (
        pa.types.is_decimal(data_type) and not (nested or data_type.scale)
    ):
        return {"type": "integer"}
    if pa.types.is_floating(data_type):
        # NaN and infinity are text, because JSON has no number for them.
        return {"type": ["number", "string"], "pattern": SPECIAL}
    return {"type": "string"} | _bounds(data_type, facts)


def _bounds(data_type: pa.DataType, facts: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON Schema keywords that limit a text to digits, to hex, or to the length of the item."""
    if pa.types.is_decimal(data_type):
        return {"pattern": DECIMAL if data_type.scale else DIGITS}
    if pa.types.is_binary(data_type):
        return {"pattern": HEX}
    most = _characters(facts)
    return {} if most is None else {"maxLength": most}
