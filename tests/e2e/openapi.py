"""An OpenAPI description as a judge: does this answer keep what the description promises?

    api = Api("api/execd.yaml")
    api.check("GET", "/ping", reply)        # AssertionError if not
    api.unseen()                            # documented answers that no check() has seen

Understands what the files in api/ use, and their extensions, which are explained on top of each.
"""

import json

import yaml
from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

METHODS = ("get", "head", "post", "put", "patch", "delete", "options")


def _escape(part):
    return str(part).replace("~", "~0").replace("/", "~1")


class Place:
    """A node of the document and where it stands, so that references in it can be followed."""

    def __init__(self, api, pointer, node):
        self.api, self.pointer, self.node = api, pointer, node

    def __getitem__(self, key):
        return Place(self.api, f"{self.pointer}/{_escape(key)}", self.node[key]).followed()

    def get(self, key):
        return self[key] if key in self.node else None

    def followed(self):
        place = self
        while isinstance(place.node, dict) and "$ref" in place.node:
            place = self.api.at(place.node["$ref"])
        return place

    def valid(self, value, what):
        """The value must be as the schema in this place says."""
        schema = {"$ref": f"urn:api#{self.pointer}"}
        check = Draft202012Validator(schema, registry=self.api.registry,
                                     format_checker=FormatChecker())
        for error in check.iter_errors(value):
            where = "/".join(map(str, error.absolute_path))
            raise AssertionError(f"{what}: at '{where}': {error.message[:500]}")


class Api:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            self.spec = yaml.safe_load(f)
        self.registry = Registry().with_resource(
            "urn:api", Resource(contents=self.spec, specification=DRAFT202012))
        self.errors = {status: set(codes) for status, codes in self.spec["x-errors"].items()}
        self.seen = {key: set() for key in self.operations()}

    def at(self, reference):
        pointer, node = reference.lstrip("#"), self.spec
        for part in pointer.strip("/").split("/"):
            node = node[part.replace("~1", "/").replace("~0", "~")]
        return Place(self, pointer, node)

    def operations(self):
        """(METHOD, path) of all of them."""
        return [(method.upper(), path) for path, item in self.spec["paths"].items()
                for method in METHODS if method in item]

    def operation(self, method, path):
        return Place(self, "/paths", self.spec["paths"])[path][method.lower()]

    def parameters(self, method, path):
        """All of an operation, those of its path included."""
        item = Place(self, "/paths", self.spec["paths"])[path]
        places = []
        for owner in (item, item[method.lower()]):
            listed = owner.get("parameters")
            if listed:
                places += [listed[i] for i in range(len(listed.node))]
        return places

    def is_open(self, path):
        """Answers of this path may be somebody else's."""
        item = self.spec["paths"][path]
        return "{path}" in path and (item.get("x-gateway") or item.get("x-any-method"))

    def response(self, method, path, status):
        """What is promised for this status; None if it should not be."""
        responses = self.operation(method, path)["responses"]
        for key in (str(status), f"{status // 100}XX"):
            if key in responses.node:
                return responses[key]
        if "default" in responses.node and status in responses["default"].node["x-default"]:
            return responses["default"]
        return None

    def check(self, method, path, reply, to_head=False):
        what = f"{method} {path} {reply.status}"
        promised = self.response(method, path, reply.status)
        if promised is None and self.is_open(path):
            return
        assert promised is not None, f"{what}: no such answer is documented: {reply.body[:300]!r}"
        self.seen[method, path].add(reply.status)
        self._check_headers(what, promised, reply)
        if to_head:
            return
        if "content" in promised.node:
            self._check_content(what, promised, reply)
        elif not self.is_open(path):
            assert reply.body == b"", f"{what}: a body where none is documented: {reply.body[:300]!r}"
            if reply.status == 200:
                assert reply.get("content-length") == "0", f"{what}: {reply.fields}"

    def _check_headers(self, what, promised, reply):
        for name in promised.node.get("headers", {}):
            header, value = promised["headers"][name], reply.get(name)
            if value is not None:
                header["schema"].valid(value, f"{what}: header {name}")
            else:
                assert not header.node.get("required"), f"{what}: header {name} is missing"

    def _check_content(self, what, promised, reply):
        if reply.body == b"" and promised.node.get("x-may-be-empty"):
            return
        media = (reply.get("content-type") or "").split(";")[0].strip()
        content = promised["content"]
        assert media in content.node, f"{what}: type {media!r} is not documented: {reply.body[:200]!r}"
        schema = content[media]["schema"]
        if media == "application/json":
            value = json.loads(reply.body)
            schema.valid(value, what)
            if reply.status >= 400:
                assert value["code"] in self.errors.get(reply.status, ()), \
                    f"{what}: code {value['code']} is not documented"
        elif media == "text/event-stream":
            text = reply.body.decode("utf-8")
            assert text.endswith("\n\n"), f"{what}: the last event has no end: {text[-100:]!r}"
            for event in text[:-2].split("\n\n"):
                schema.valid(json.loads(event), what)
        elif schema.node:
            schema.valid(reply.body.decode("utf-8"), what)

    def unseen(self, but=()):
        """Documented answers below 500 (and 501) that were never seen, less those excused."""
        missing = []
        for (method, path), statuses in self.seen.items():
            for key in self.operation(method, path)["responses"].node:
                if key in ("default", "2XX") or (key.startswith("5") and key != "501"):
                    continue
                if int(key) not in statuses and not self.is_open(path):
                    missing.append(f"{method} {path} {key}")
        return [line for line in missing if line not in but]
