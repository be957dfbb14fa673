"""SQL cells, run by the sqlite3 of the image's Python. The database lives in memory, or in the file that
EXECD_SQL_DATABASE names. A result is the JSON of {"columns": [...], "rows": [[...], ...]}, cells as strings or
null; statements that return no rows answer with how many they changed."""

import json
import os

import osb_display
import osb_shell

MAX_ROWS = 10000


class SqlShell(osb_shell.Shell):
    """The same face as Shell; a cell is one or more statements, the last one's result is the cell's."""

    def __init__(self, wire):
        self.wire, self.count = wire, 0
        self.display = osb_display.Display(wire)
        self.namespace = {}
        self.connection = None

    def run(self, code):
        self.count += 1
        import sqlite3
        try:
            stage = "DBInitError"
            if self.connection is None:
                self.connection = sqlite3.connect(os.environ.get("EXECD_SQL_DATABASE", ":memory:"),
                                                  isolation_level=None)
            stage = "DBQueryError"
            answer = None
            with osb_shell.interruptible():
                for statement in statements(code, sqlite3.complete_statement):
                    answer = self._execute(statement)
            if answer is not None:
                self._show(answer)
            return True
        except sqlite3.Error as error:
            self.wire.send(op="error", ename=stage, evalue=str(error), traceback=[str(error)])
        except BaseException as error:  # an interrupt, no memory: it is the cell's result
            self._fail(error)
        return False

    def _execute(self, statement):
        cursor = self.connection.execute(statement)
        if cursor.description is None:
            return {"columns": ["affected_rows"], "rows": [[str(max(cursor.rowcount, 0))]]}
        rows = cursor.fetchmany(MAX_ROWS)
        answer = {"columns": [column[0] for column in cursor.description],
                  "rows": [[text(value) for value in row] for row in rows]}
        if cursor.fetchone() is not None:
            answer["note"] = "cut: only the first %d rows" % MAX_ROWS
        return answer

    def _show(self, answer):
        data = {"text/plain": json.dumps(answer, ensure_ascii=False)}
        if len(data["text/plain"]) > 400000:  # no half JSON: fewer rows
            keep = max(1, len(answer["rows"]) * 300000 // len(data["text/plain"]))
            answer["rows"] = answer["rows"][:keep]
            answer["note"] = "cut: only the first %d rows" % keep
            data = {"text/plain": json.dumps(answer, ensure_ascii=False)}
        self.wire.send(op="result", data=data, count=self.count)


def text(value):
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def statements(code, complete):
    """The statements of a cell: cut at semicolons that end one (not those in strings or triggers)."""
    start, found = 0, []
    for i, char in enumerate(code):
        if char == ";" and complete(code[start:i + 1]):
            found.append(code[start:i + 1])
            start = i + 1
    found.append(code[start:])
    return [s for s in found if s.strip() and s.strip() != ";"]
