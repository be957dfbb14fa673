"""The public descriptions of the protocol, as the official Python client carries them: a generator has made one module
for each operation (method, path, what each status is read as) and one class for each schema.

    judge = Judge({"": ("lifecycle", "diagnostic"), EGRESS: ("egress",)})
    judge.check("GET", "/sandboxes/{id}", reply)
    judge.found         # differences of all live answers so far, in words

The classes take almost anything, and so a look at what came of an answer judges it: a member that is required or
listed must be there with the type it is listed with, one that is not listed is a difference, and nothing that was sent
may be lost on the way through a class and back.
"""

import datetime
import glob
import importlib
import json
import os
import re
import types
import typing

import httpx
import opensandbox

PLACE = os.path.dirname(opensandbox.__file__)
EGRESS = "/sandboxes/{}/proxy/18080"  # where we serve what the client calls by the address of a port


def shape(path):
    """A path whatever its parameters are called."""
    return re.sub(r"\{[^}]*\}", "{}", path)


class Operation:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            self.text = f.read()
        self.name = os.path.relpath(path, os.path.dirname(PLACE))[:-3].replace(os.sep, ".")
        self.statuses = {int(status) for status in re.findall(r"status_code == (\d+)", self.text)}

    def read(self, reply):
        """What the client makes of an answer: objects of its classes, and the JSON that each came of."""
        module = importlib.import_module(self.name)
        event = re.search(rf"response_{reply.status} = (\w+)\.from_dict\(response\.text\)", self.text)
        if event:  # a stream, of which the generator knows one event
            values = [json.loads(one.removeprefix("data:")) for one in reply.body.decode().strip().split("\n\n")]
            return [(getattr(module, event[1]).from_dict(value), value) for value in values]
        client = importlib.import_module(".".join(self.name.split(".")[:3]) + ".client")
        answer = httpx.Response(reply.status, content=reply.body)
        parse = getattr(module, "_parse_response")
        parsed = parse(client=client.Client(base_url="http://x", raise_on_unexpected_status=True), response=answer)
        if isinstance(parsed, list):
            return list(zip(parsed, json.loads(reply.body), strict=True))
        return [(parsed, json.loads(reply.body))] if hasattr(parsed, "to_dict") else []


def operations(parts, prefix=""):
    """{(METHOD, shape): Operation} of these parts of the client."""
    found = {}
    for part in parts:
        for path in glob.glob(os.path.join(PLACE, "api", part, "api", "*", "*.py")):
            operation = Operation(path)
            method = re.search(r'"method": "(\w+)"', operation.text)
            url = re.search(r'"url": "([^"]+)"', operation.text)
            if method and url:
                found[method[1].upper(), prefix + shape(url[1])] = operation
    return found


def plain(value):
    """As it would be sent, with times in one spelling."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)", value):
        return datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
    return value


def fits(value, hint):
    """Whether a value is what an annotation says. Objects of classes are looked into by members()."""
    kind, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is typing.Any:
        return True
    if kind in (typing.Union, types.UnionType):
        return any(fits(value, one) for one in inner)
    if kind is list:
        return isinstance(value, list) and all(fits(one, inner[0]) for one in value)
    if kind is dict:
        return isinstance(value, dict) and all(fits(one, inner[1]) for one in value.values())
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return value is None if hint in (None, type(None)) else isinstance(value, hint)


def hints(kind):
    """The annotations of a class; they name others that its file imports for the type checker alone."""
    models = importlib.import_module(kind.__module__.rpartition(".")[0])
    return typing.get_type_hints(kind, vars(importlib.import_module(kind.__module__)), vars(models))


def members(model):
    """Differences of an object and those in it, in words."""
    kind, listed = type(model), hints(type(model))
    for name, hint in listed.items():
        value = getattr(model, name)
        if not fits(value, hint):
            yield f"{kind.__name__}.{name}: {type(value).__name__}, not {hint}"
        for one in value if isinstance(value, list) else value.values() if isinstance(value, dict) else [value]:
            if hasattr(one, "to_dict"):
                yield from members(one)
    if set(listed) - {"additional_properties"}:
        yield from (f"{kind.__name__}: also {name}" for name in getattr(model, "additional_properties", ()))


class Judge:
    def __init__(self, parts):
        """parts: what our paths have in front of the public ones -> parts of the client"""
        self.operations, self.found, self.judged = {}, set(), set()
        for prefix, names in parts.items():
            self.operations |= operations(names, prefix)

    def check(self, method, path, reply):
        """Notes the differences of one answer, if the public description lists it."""
        operation = self.operations.get((method, shape(path)))
        if not operation or reply.status not in operation.statuses:
            return
        self.judged.add((method, shape(path)))
        try:
            for model, value in operation.read(reply):
                self.found.update(members(model))
                if plain(model.to_dict()) != plain(value):
                    self.found.add(f"{type(model).__name__}: lost {sorted(lost(model.to_dict(), value))}")
        except json.JSONDecodeError:
            self.found.add(f"{method} {shape(path)} {reply.status}: not JSON")
        except Exception as error:  # pylint: disable=broad-except
            self.found.add(f"{method} {shape(path)} {reply.status}: {type(error).__name__}: {error}")


def lost(now, then):
    """Where two JSON objects differ."""
    return {key for key in then.keys() | now.keys() if plain(now.get(key)) != plain(then.get(key))}
