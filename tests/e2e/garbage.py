"""Requests made up from an OpenAPI description: what it allows, and what it does not.

    maker = Maker(api, seed)
    for request in maker.requests("POST", "/command", 40):
        request.method, request.target, request.fields, request.body

The same seed makes the same requests. Every second request is meant to be valid; the others have
something broken: a value, the body as a whole, its declared type, the query or the path.
"""

import json
import random
import re
import urllib.parse

WORDS = ["a", "abc", "x-1", "hello world", "/tmp/x", "tmp/y.txt", "12", "0", "8080", "*.txt", "files/info",
         "directories/list", "host", "128Mi", "1", "true", "é", "k=v", "k=v&l=w", "bytes=0-1"]
WEIRD = [None, True, False, -1, 0, 1, 2**31, 2**63, 2**64, 10**400, -1.5, 1e308, "", " ", "\0", "a\0b",
         "\u0085\u2028\U0001f600", "\ud800", "../../..", "$NO_SUCH_NAME", "${", "~", "~nobody", "$(id)",
         "`id`", "%00", "%zz", "\r\nX: y", "x" * 70000, "[", "{a,{b,{c", "**/**/**/*", [], {}, [[]], [None],
         {"": ""}, {"a": None}]
BODIES = [b"", b"null", b"true", b"0", b'"text"', b"[", b"{", b"{}", b"[]", b'{"a":1,"a":2}', b"{} {}",
          b"\xff\xfe", b"\xef\xbb\xbf{}", b"{\"a\":\"\xc3\x28\"}", b"1e999", b"[" * 5000, b"\0" * 64,
          b'{"a":"\\u0000","\\u0000":1}', b"x" * 5000]
TYPES = ["application/json", "application/json; charset=utf-8", "application/json;charset=utf-16",
         "text/plain", "", "multipart/form-data", "multipart/form-data; boundary=", "x", "application/x+json",
         None]
RAW = ["%zz", "%", "%00", "%2e%2e", "..", ".", "%2F", "%C3%28", "a%0d%0ab", "a" * 3000, "%F0%9F%98%80", ";",
       "*"]

RANGES = ["0-1", "-", "x", "9-", "5-2", "-0", "0-0,2-3"]


class Request:
    def __init__(self, method, target, fields, body):
        self.method, self.target, self.fields, self.body = method, target, fields, body

    def __str__(self):
        return f"{self.method} {self.target[:200]} {self.fields} {self.body[:300]!r}"


class Maker:
    def __init__(self, api, seed, names=None):
        """names: values that exist, for parameters of these names."""
        self.api, self.random, self.names = api, random.Random(seed), names or {}

    # --- values ---

    def text(self, schema):
        found = WORDS
        if "pattern" in schema:
            found = [word for word in WORDS if re.search(schema["pattern"], word)] or ["a"]
        if "minLength" in schema:
            found = [word for word in found if len(word) >= schema["minLength"]]
        return self.random.choice(schema.get("examples", []) + found)

    def value(self, place):
        """Something that the schema in this place allows, more or less."""
        schema = place.node
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        if "anyOf" in schema:
            return self.value(place["anyOf"][self.random.randrange(len(schema["anyOf"]))])
        kind = schema.get("type", "string")
        if isinstance(kind, list):
            kind = self.random.choice(kind)
        if kind == "object":
            return self.object(place)
        if kind == "array":
            return [self.value(place["items"])
                    for _ in range(self.random.randint(schema.get("minItems", 0), 2))]
        if kind == "integer":
            low = schema.get("minimum", -5)
            return self.random.randint(low, min(schema.get("maximum", low + 1000), low + 1000))
        if kind == "number":
            return self.random.random() * 100
        return {"boolean": self.random.random() < 0.5, "null": None}.get(kind, self.text(schema))

    def object(self, place):
        made = {}
        for name in place.node.get("properties", {}):
            if name in place.node.get("required", ()) or self.random.random() < 0.3:
                made[name] = self.value(place["properties"][name])
        if isinstance(place.node.get("additionalProperties"), dict):
            for _ in range(self.random.randint(0, 2)):
                made[self.random.choice(WORDS)] = self.value(place["additionalProperties"])
        return made

    def spoil(self, value):
        """The same with one thing in it that is out of place."""
        if isinstance(value, dict) and value and self.random.random() < 0.8:
            key = self.random.choice(sorted(value))
            kept = {k: v for k, v in value.items() if k != key}
            if self.random.random() < 0.2:
                return kept
            return {**kept, key: self.spoil(value[key])}
        if isinstance(value, list) and value and self.random.random() < 0.6:
            return [self.spoil(value[0])] + value[1:]
        return self.random.choice(WEIRD)

    # --- requests ---

    def parameter(self, place, broken):
        """The texts of a parameter."""
        name, value = place.node["name"], self.value(place["schema"])
        if name in self.names and self.random.random() < 0.7:
            value = self.names[name]
        if broken:
            value = self.random.choice([value, self.random.choice(WEIRD)])
        texts = value if isinstance(value, list) else [value]
        return [t if isinstance(t, str) else json.dumps(t) for t in texts]

    def target(self, method, path, broken):
        query, fields = [], []
        for place in self.api.parameters(method, path):
            name, where = place.node["name"], place.node["in"]
            raw = broken and self.random.random() < 0.2
            texts = [t.encode("utf-8", "surrogatepass") for t in self.parameter(place, broken)]
            if where == "path":
                safe = "/" if name == "path" else ""
                text = texts[0][:1000] if texts and texts[0] else b"x"
                value = self.random.choice(RAW) if raw else urllib.parse.quote(text, safe)
                path = path.replace("{%s}" % name, value)
            elif where == "query" and (place.node.get("required") or self.random.random() < 0.6):
                query += [f"{name}=" + (self.random.choice(RAW) if raw else urllib.parse.quote(t))
                          for t in texts]
            elif where == "header" and self.random.random() < 0.3:
                fields.append((name, "bytes=" + self.random.choice(RANGES)))
        if broken and self.random.random() < 0.2:
            query.append(self.random.choice(["&&", "=", "%", "a=%zz", "path", "x=" + "y" * 6000]))
        return path + ("?" + "&".join(query) if query else ""), fields

    def form(self, parts):
        """multipart/form-data"""
        mark = "mark%d" % self.random.randrange(10**9)
        lines = []
        for name, value in parts.items():
            text = value if isinstance(value, str) else json.dumps(value)
            lines += [f"--{mark}", f'Content-Disposition: form-data; name="{name}"; filename="f"', "", text]
        return "\r\n".join(lines + [f"--{mark}--", ""]).encode("utf-8", "replace"), mark

    def body(self, method, path, broken):
        wanted = self.api.operation(method, path).get("requestBody")
        if wanted is None:
            return (self.random.choice(BODIES) if broken and method != "GET" else b""), []
        media = self.random.choice(sorted(wanted["content"].node))
        value = self.value(wanted["content"][media]["schema"])
        if broken and self.random.random() < 0.8:
            value = self.spoil(value)
        if media == "multipart/form-data" and isinstance(value, dict):
            data, mark = self.form(value)
            media += f"; boundary={mark}"
        else:
            data = json.dumps(value).encode()
        if broken and self.random.random() < 0.2:
            data = self.random.choice(BODIES)
        if broken and self.random.random() < 0.1:
            data = data[:self.random.randrange(len(data) + 1)]
        if broken and self.random.random() < 0.15:
            media = self.random.choice(TYPES)
        return data, [("Content-Type", media)] if media is not None else []

    def requests(self, method, path, count):
        for i in range(count):
            broken = i % 2 == 1
            target, fields = self.target(method, path, broken)
            body, more = self.body(method, path, broken)
            yield Request(method, target, fields + more, body)
