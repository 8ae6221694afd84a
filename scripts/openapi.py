"""The OpenAPI 3.1 document of all endpoints: docs/openapi.json."""

from __future__ import annotations

import inspect
import re
from typing import Any

import msgspec

import zmon
from zmon.schema.api import Endpoint, Problem, endpoints

_REF = "#/components/schemas/{name}"


def openapi() -> dict[str, Any]:
    """Return the document. A path that agent and hub share has one entry with both answers."""
    all_endpoints = (*endpoints.AGENT, *endpoints.HUB)
    bodies = [endpoint.request for endpoint in all_endpoints if endpoint.method == "POST"]
    _, components = msgspec.json.schema_components(
        [*dict.fromkeys(endpoint.answer for endpoint in all_endpoints), *bodies, Problem], ref_template=_REF
    )
    paths: dict[str, Any] = {}
    for endpoint in all_endpoints:
        operation = _operation(endpoint)
        existing = paths.setdefault(endpoint.path, {}).setdefault(endpoint.method.lower(), operation)
        if existing is not operation:  # agent and hub share the path
            existing["tags"] += operation["tags"]
            existing["summary"] += " " + operation["summary"]
            schema = existing["responses"]["200"]["content"]["application/json"]
            schema["schema"] = {"anyOf": [schema["schema"], _reference(endpoint.answer)]}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "zmon agent and hub",
            "version": zmon.__version__,
            "description": "Generated from `zmon/schema/api/` by `make generate`. Null or absent means unknown, not 0.",
        },
        "paths": paths,
        "components": {"schemas": {name: _independent(schema) for name, schema in sorted(components.items())}},
    }


def _operation(endpoint: Endpoint[Any, object]) -> dict[str, Any]:
    in_body = endpoint.method == "POST"
    parameters = [
        {
            "name": field.encode_name,
            "in": "path" if field.name in endpoint.in_path else "query",
            "required": field.name in endpoint.in_path,
            "schema": msgspec.json.schema(field.type),
        }
        for field in (() if in_body else msgspec.structs.fields(endpoint.request))
    ]
    body = {"required": True, "content": {"application/json": {"schema": _reference(endpoint.request)}}}
    problem = {"content": {"application/json": {"schema": _reference(Problem)}}}
    return {
        "tags": [endpoint.daemon],
        "operationId": re.sub(r"Request$", "", endpoint.request.__name__),
        "summary": endpoint.summary,
        "parameters": parameters,
        **({"requestBody": body} if in_body else {}),
        "responses": {
            "200": {
                "description": "The answer.",
                "content": {"application/json": {"schema": _reference(endpoint.answer)}},
            },
            "default": {"description": "Why there is no answer, in one line.", **problem},
        },
    }


def _independent(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a class as every version of msgspec and Python writes it.

    Python indents docstrings until 3.13. msgspec writes an empty mapping as a default since 0.23.
    """
    schema = dict(schema)
    if "description" in schema:
        schema["description"] = inspect.cleandoc(schema["description"])
    if "properties" in schema:
        schema["properties"] = {
            name: {key: value for key, value in field.items() if key != "default" or value != {}}
            for name, field in schema["properties"].items()
        }
    return schema


def _reference(answer: type[object]) -> dict[str, str]:
    return {"$ref": _REF.format(name=answer.__name__)}
