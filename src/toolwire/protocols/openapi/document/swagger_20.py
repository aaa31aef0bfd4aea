"""Upgrade a Swagger 2.0 document to OpenAPI 3.0, so that only OpenAPI 3 has to be read.

Rules:
- Paths and operations keep their places, so that a JSON Pointer to one is valid in both documents.
- A contradiction in the document, or something that 3.0 cannot express, is a finding.
"""
# FU-21: the source of all members is https://spec.openapis.org/oas/v2.0.html

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from toolwire.core.json_pointer import join_pointer
from toolwire.core.model import Json
from toolwire.framing.jsontext import list_texts

from .findings import SHOWN, Note
from .references import References, Unusable

_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch")
_MOVED: Final = {
    "#/definitions/": "#/components/schemas/",
    "#/responses/": "#/components/responses/",
    "#/parameters/": "#/components/parameters/",
    "#/securityDefinitions/": "#/components/securitySchemes/",
}
_SCHEMA_WORDS: Final = frozenset(
    ("type", "format", "items", "default", "enum", "pattern", "minimum", "maximum", "exclusiveMinimum")
) | {
    *("exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "multipleOf", "title"),
    *("x-nullable", "x-enum-varnames"),
}
_DATA: Final = frozenset(("default", "enum", "example", "examples", "x-example", "x-examples", "x-llm"))
_MAPS: Final = frozenset(("properties", "patternProperties", "definitions"))
_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
_MULTIPART: Final = "multipart/form-data"
_FLOWS: Final = {
    "implicit": "implicit",
    "password": "password",
    "application": "clientCredentials",
    "accessCode": "authorizationCode",
}
_BUNDLED_DOCUMENTS: Final = "x-toolwire-documents"
_COPIED_PARTS: Final = "x-toolwire-swagger"
_SCHEMES: Final = ("https", "http", "wss", "ws")
_MAX_LEVELS: Final = 10
COLLECTION_FORMATS: Final = "x-toolwire-collection-formats"
"""An extension with the formats of nested arrays of a parameter, which 3.0 cannot express."""

SEPARATORS: Final = {"csv": ",", "ssv": " ", "tsv": "\t", "pipes": "|"}
"""The separator of each collection format. ``multi`` has none: it repeats the name."""


def is_swagger(document: Mapping[str, Any]) -> bool:
    """Return whether ``document`` declares Swagger 2.0."""
    return str(document.get("swagger")) in ("2.0", "2") and "openapi" not in document


def upgrade(document: dict[str, Any], url: str = "") -> tuple[dict[str, Any], list[Note]]:
    """Return the Swagger 2.0 ``document``, fetched from ``url``, as OpenAPI 3.0.3, and a finding for each loss."""
    return _Upgrade(document, url).run()


class _Upgrade:
    def __init__(self, document: dict[str, Any], url: str) -> None:
        self._document = document
        self._url = url
        self._references = References(document)
        self._notes: list[Note] = []
        self._copied: set[str] = set()

    def run(self) -> tuple[dict[str, Any], list[Note]]:
        old = self._document
        components = {
            "schemas": {name: self._upgrade_schema(one) for name, one in _get_map(old.get("definitions")).items()},
            "responses": {
                name: self._upgrade_response(one, ()) for name, one in _get_map(old.get("responses")).items()
            },
            "parameters": {
                name: self._upgrade_parameter(one)
                for name, one in _get_map(old.get("parameters")).items()
                if self._is_parameter(one)
            },
            "securitySchemes": self._upgrade_security_schemes(),
        }
        gone = ("swagger", "host", "basePath", "schemes", "consumes", "produces", "definitions", "parameters")
        members = {
            name: one for name, one in old.items() if name not in (*gone, "responses", "securityDefinitions", "paths")
        }
        rest = {name: self._upgrade_schema(one) if name == _BUNDLED_DOCUMENTS else one for name, one in members.items()}
        paths = {path: self._upgrade_path_item(path, item) for path, item in _get_map(old.get("paths")).items()}
        servers = self._build_servers(old.get("schemes"))
        whole = {"openapi": "3.0.3", **rest, "servers": servers, "paths": paths, "components": components}
        if not servers:
            del whole["servers"]
        copies: dict[str, Json] = {}
        # A copied part may refer to further parts, so copy until a round finds nothing new.
        while self._copied - copies.keys():
            copies |= {name: self._upgrade_schema(old.get(name)) for name in self._copied - copies.keys()}
        if copies:
            whole[_COPIED_PARTS] = copies
        return whole, self._notes

    def _build_servers(self, schemes: Json) -> list[dict[str, Json]]:
        host, base = self._document.get("host"), self._document.get("basePath")
        path = "/" + base.strip("/") if isinstance(base, str) else "/"
        listed = [one for one in schemes if one in _SCHEMES] if isinstance(schemes, list) else []
        if not isinstance(host, str) or not host:
            # Without a host the path is relative to the document's URL, which is what 2.0 says too.
            return [{"url": path}] if path != "/" or listed else []
        usable = [one for one in listed if one in ("https", "http")]
        if listed and not usable:
            self._add_note(
                "", f"It is called by {', '.join(listed)} only, which is not spoken here: https is used", "/schemes"
            )
        # Without schemes, 2.0 says to use the scheme by which the document was fetched.
        here = self._url.partition(":")[0]
        return [
            {"url": f"{scheme}://{host}{path}"}
            for scheme in usable or [here if here in ("https", "http") and not listed else "https"]
        ]

    def _upgrade_path_item(self, path: str, item: Json) -> Json:
        if not isinstance(item, dict):
            return item
        try:
            layers = self._references.list_layers(item, "path item")
        except Unusable:
            return item  # list_operations() reports it
        whole = {name: one for layer in layers for name, one in layer.items() if name != "$ref"}
        # 3.0 knows no body or form among the parameters of a path item, so each operation takes them over.
        common = whole.get("parameters")
        found = {name: one for name, one in whole.items() if name not in (*_METHODS, "parameters")}
        for method in _METHODS:
            if method not in whole:
                continue
            try:
                node = {
                    name: one
                    for layer in self._references.list_layers(whole[method], "operation")
                    for name, one in layer.items()
                }
            except Unusable:
                found[method] = whole[method]
                continue
            found[method] = self._upgrade_operation(
                f"{method.upper()} {path[:SHOWN]}", join_pointer("", "paths", path, method), node, common
            )
        return found

    def _upgrade_operation(self, where: str, at: str, node: dict[str, Any], common: Json) -> dict[str, Any]:
        gone = ("parameters", "consumes", "produces", "schemes", "responses")
        whole = {name: one for name, one in node.items() if name not in gone}
        consumes = list_texts(node.get("consumes", self._document.get("consumes")))
        produces = list_texts(node.get("produces", self._document.get("produces")))
        plain: dict[tuple[str, str], Json] = {}
        form: dict[str, dict[str, Any]] = {}
        bodies: list[dict[str, Any]] = []
        for one in [*_get_list(common, self._references), *_get_list(node.get("parameters"), self._references)]:
            found = self._references.follow_or_empty(one)
            name, place = found.get("name"), found.get("in")
            if place == "body":
                bodies.append(found)
            elif place == "formData" and isinstance(name, str):
                form[name] = found
            else:
                reference = one.get("$ref") if isinstance(one, dict) else None
                is_plain = isinstance(reference, str) and (not found or reference.startswith("#/parameters/"))
                # A later parameter of the same place and name replaces an earlier one: the operation wins over its path
                # item.
                plain[str(place or reference), str(name)] = (
                    {"$ref": _move_reference(str(reference))} if is_plain else self._upgrade_parameter(found or one)
                )
        if plain:
            whole["parameters"] = list(plain.values())
        body = self._build_body(where, at, bodies, form, consumes)
        if body is not None:
            whole["requestBody"] = body
        responses = _get_map(self._references.follow_or_empty(node.get("responses")))
        whole["responses"] = {str(code): self._upgrade_response(one, produces) for code, one in responses.items()}
        # An operation with schemes of its own gets servers of its own, as 3.0 has no schemes.
        if isinstance(node.get("schemes"), list):
            servers = self._build_servers(node["schemes"])
            if servers:
                whole["servers"] = servers
        return whole

    def _build_body(
        self, where: str, at: str, bodies: list[dict[str, Any]], form: dict[str, dict[str, Any]], consumes: list[str]
    ) -> dict[str, Any] | None:
        if bodies and form:
            self._add_note(where, "it has a body and parameters of a form: the body counts", at)
        if len(bodies) > 1:
            self._add_note(where, "it has several bodies: the last one counts", at)
        if bodies:
            body = bodies[-1]
            media = {**_list_shown(body), "schema": self._upgrade_schema(body.get("schema", {}))}
            # A body parameter in a form is a contradiction that many generators write by a global "consumes"; they mean
            # JSON.
            types = [one for one in consumes if one not in (_FORM, _MULTIPART)] or [_JSON]
            texts = {name: body[name] for name in ("description",) if name in body}
            return {**texts, "required": body.get("required") is True, "content": dict.fromkeys(types, media)}
        return self._build_form(form, consumes) if form else None

    def _build_form(self, form: dict[str, dict[str, Any]], consumes: list[str]) -> dict[str, Any]:
        has_file = any(one.get("type") == "file" for one in form.values())
        # A file cannot be sent in a urlencoded form, whatever "consumes" says.
        types = [_MULTIPART] if has_file else [one for one in consumes if one in (_FORM, _MULTIPART)] or [_FORM]
        properties: dict[str, Json] = {}
        encoding: dict[str, Json] = {}
        for name, one in form.items():
            properties[name] = self._build_parameter_schema(one)
            if isinstance(one.get("description"), str):
                properties[name]["description"] = one["description"]
            properties[name] |= {key: value for key, value in _list_shown(one).items() if key == "example"}
            style = self._build_style(one)
            if style and one.get("collectionFormat") != "multi":  # 3.0 has no styles in a form with files
                style[COLLECTION_FORMATS] = self._list_collection_formats(one)
            if style:
                encoding[name] = style
        required = [name for name, one in form.items() if one.get("required") is True]
        schema: dict[str, Json] = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        content: dict[str, Json] = {
            one: {"schema": schema, "encoding": encoding} if encoding else {"schema": schema} for one in types
        }
        return {"required": bool(required), "content": content}

    def _is_parameter(self, node: Json) -> bool:
        return self._references.follow_or_empty(node).get("in") not in ("body", "formData")

    def _upgrade_parameter(self, node: Json) -> Json:
        if not isinstance(node, dict):
            return node
        if isinstance(node.get("$ref"), str):
            return {**node, "$ref": _move_reference(node["$ref"])}
        members = {
            name: one
            for name, one in node.items()
            if name not in _SCHEMA_WORDS and name not in ("collectionFormat", "allowEmptyValue")
        }
        return {**_list_shown(node), **members, **self._build_style(node), "schema": self._build_parameter_schema(node)}

    def _build_parameter_schema(self, node: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of a parameter or header: in 2.0 its keywords are members of the parameter itself."""
        own = node.get("schema")
        words = {name: one for name, one in node.items() if name in _SCHEMA_WORDS}
        schema = self._upgrade_schema({**(own if isinstance(own, dict) else {}), **words})
        return schema if isinstance(schema, dict) else {}

    def _build_style(self, node: dict[str, Any]) -> dict[str, Json]:
        """Return style and explode of an array parameter, with our extension if 3.0 has no equal style."""
        if node.get("type") != "array":
            return {}
        place, how = node.get("in"), node.get("collectionFormat", "csv")
        formats = self._list_collection_formats(node)
        style: dict[str, Json] = {"style": "form", "explode": how == "multi"}
        if place in ("path", "header"):
            style = {"style": "simple", "explode": False}
        # These two styles of 3.0 write what 2.0 writes; tabs have no style and are told to the writer by our extension.
        elif how in ("ssv", "pipes"):
            style["style"] = "spaceDelimited" if how == "ssv" else "pipeDelimited"
        if len(formats) > 1 or (place in ("path", "header") and how != "csv") or how == "tsv":
            style[COLLECTION_FORMATS] = formats
        return style

    def _list_collection_formats(self, node: dict[str, Any]) -> list[Json]:
        """Return the formats of an array and of nested arrays, the outermost first; an invalid one becomes ``csv``."""
        formats: list[Json] = []
        one: Json = node
        while isinstance(one, dict) and one.get("type") == "array" and len(formats) < _MAX_LEVELS:
            how = one.get("collectionFormat", "csv")
            repeats = how == "multi" and not formats and node.get("in") in ("query", "formData")
            if repeats or how in SEPARATORS:
                formats.append(how)
            else:
                text = f"its list by {str(how)[:20]!r} is not one of Swagger 2.0 there, and is written by commas"
                self._add_note(str(node.get("name"))[:SHOWN], text)
                formats.append("csv")
            one = one.get("items")
        return formats

    def _upgrade_response(self, node: Json, produces: list[str] | tuple[()]) -> Json:
        if not isinstance(node, dict):
            return node
        if isinstance(node.get("$ref"), str):
            if not produces:
                return {**node, "$ref": _move_reference(node["$ref"])}
            # A shared response takes its media types from the operation that uses it, so it is copied there.
            found = self._references.follow_or_empty(node)
            if not found:
                return node
            node = found
        whole = {name: one for name, one in node.items() if name not in ("schema", "examples", "headers")}
        whole.setdefault("description", "")
        headers = _get_map(node.get("headers"))
        if headers:
            whole["headers"] = {
                name: {
                    **({"description": one["description"]} if isinstance(one.get("description"), str) else {}),
                    "schema": self._build_parameter_schema(one),
                }
                for name, one in headers.items()
                if isinstance(one, dict)
            }
        schema = node.get("schema")
        if isinstance(schema, dict):
            types = list(produces) or list_texts(self._document.get("produces")) or [_JSON]
            examples = _get_map(node.get("examples"))
            whole["content"] = {
                one: {"schema": self._upgrade_schema(schema), **({"example": examples[one]} if one in examples else {})}
                for one in types
            }
        return whole

    def _upgrade_schema(self, node: Json, within: str = "") -> Any:
        """Return a schema and its subschemas with the keywords of 3.0."""
        if isinstance(node, list):
            return [self._upgrade_schema(item) for item in node]
        if not isinstance(node, dict):
            return node
        is_map = within in _MAPS
        whole: dict[str, Any] = {}
        for name, one in node.items():
            if not is_map and name == "$ref" and isinstance(one, str):
                whole[name] = self._move_schema_reference(one)
            # Values of "default", "enum" and examples are data: what looks like a schema in them stays as it is.
            elif isinstance(one, dict | list) and (is_map or name not in _DATA):
                whole[name] = self._upgrade_schema(one, "" if is_map else name)
            else:
                whole[name] = one
        return whole if is_map else _upgrade_words(whole)

    def _move_schema_reference(self, reference: str) -> str:
        """Return the new reference to a schema; one to a changed place leads into an unchanged copy of that place."""
        if reference.startswith("#/definitions/"):
            return _move_reference(reference)
        first = reference.removeprefix("#/").partition("/")[0]
        if not reference.startswith("#/") or first not in ("paths", "parameters", "responses"):
            return reference
        self._copied.add(first)
        return f"#/{_COPIED_PARTS}/{reference.removeprefix('#/')}"

    def _upgrade_security_schemes(self) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for name, node in _get_map(self._document.get("securityDefinitions")).items():
            one = self._references.follow_or_empty(node)
            kind = one.get("type")
            words = {
                key: each for key, each in one.items() if key not in ("flow", "authorizationUrl", "tokenUrl", "scopes")
            }
            if kind == "basic":
                found[name] = {**words, "type": "http", "scheme": "basic"}
            elif kind == "oauth2":
                flow = _FLOWS.get(str(one.get("flow")))
                if flow is None:
                    self._add_note(
                        "",
                        f"The flow of {name[:SHOWN]!r} is not one of Swagger 2.0",
                        join_pointer("", "securityDefinitions", name),
                    )
                urls = {key: one[key] for key in ("authorizationUrl", "tokenUrl") if isinstance(one.get(key), str)}
                flows = {flow: {**urls, "scopes": _get_map(one.get("scopes"))}} if flow else {}
                found[name] = {**words, "flows": flows}
            else:
                found[name] = one
        return found

    def _add_note(self, where: str, text: str, at: str = "") -> None:
        note = Note(where, text, at)
        if note not in self._notes:
            self._notes.append(note)


def _upgrade_words(schema: dict[str, Any]) -> dict[str, Any]:
    # 2.0 has a type of its own for files; 3.0 says the same by a format.
    if schema.get("type") == "file":
        schema |= {"type": "string", "format": "binary"}
    if isinstance(schema.get("discriminator"), str):
        schema["discriminator"] = {"propertyName": schema["discriminator"]}
    # 2.0 has no null; most generators agreed on this extension.
    if "x-nullable" in schema:
        schema["nullable"] = schema.pop("x-nullable") is True
    return schema


def _move_reference(reference: str) -> str:
    for old, new in _MOVED.items():
        if reference.startswith(old):
            return new + reference.removeprefix(old)
    return reference


def _list_shown(node: dict[str, Any]) -> dict[str, Json]:
    """Return the examples of a parameter as 3.0 writes them: 2.0 has only extensions for them."""
    # O-27
    words = (("x-example", "example"), ("x-examples", "examples"))
    found = {word: node[extension] for extension, word in words if extension in node}
    return found | ({"example": node["example"]} if "example" in node else {})


def _get_map(node: Json) -> dict[str, Any]:
    return node if isinstance(node, dict) else {}


def _get_list(node: Json, references: References) -> list[Json]:
    if isinstance(node, dict) and isinstance(node.get("$ref"), str):
        try:
            node = references.resolve(node["$ref"])
        except Unusable:
            return [node]
    return node if isinstance(node, list) else []
