"""Wraps C comments that are too wide. clang-format is told to leave comments alone: it glues words
to the stars when it has to break one."""

import re

WIDTH = 100

ALONE = re.compile(r"^(\t*)/\* ?(.*?)(\*/)?\s*$")
INNER = re.compile(r"^\s*\*(?!/) ?(.*?)(\*/)?\s*$")
TRAILING = re.compile(r"^(\t*)(\S.*?\S)\s*/\* (.*) \*/$")
ITEM = re.compile(r"^\s*(?:[-*] |\d+\. )?")


def wrap(words, width, hang):
    """Greedy lines; all but the first begin with `hang` blanks."""
    lines, line = [], ""
    for word in words:
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = " " * hang + word
        else:
            line = f"{line} {word}" if line else word
    return lines + [line]


def wrap_paragraph(lines, width, tail):
    """Lines of one paragraph; `tail` closes the comment and stays with the last word."""
    joined = lines[:-1] + [lines[-1] + tail]
    if lines[0].startswith("\t") or all(len(line.expandtabs(8)) <= width for line in joined):
        return joined
    lead = ITEM.match(lines[0]).group()
    words = " ".join(line.strip() for line in [lines[0][len(lead):], *lines[1:]]).split()
    words[-1] += tail
    words[0] = lead + words[0]
    return wrap(words, width, len(lead))


def paragraphs(content):
    """Runs of lines that flow into each other; empty and tabbed lines (examples) stand alone."""
    run = []
    for line in content:
        lead = ITEM.match(line).group()
        alone = not line.strip() or line.startswith("\t")
        flows = run and not alone and run[-1].strip() and not run[-1].startswith("\t") and (
            line[:1] != " " and lead == "" and not run[0].startswith(" ")
            or lead.isspace() and len(lead) == len(ITEM.match(run[0]).group()))
        if run and not flows:
            yield run
            run = []
        run.append(line)
    if run:
        yield run


def fix_block(indent, content):
    """One comment, its lines without stars; the lines it becomes."""
    width = WIDTH - 8 * len(indent) - 3
    groups = list(paragraphs(content))
    flat = []
    for number, group in enumerate(groups):
        flat += wrap_paragraph(group, width, " */" if number == len(groups) - 1 else "")
    out = [f"{indent}/* {flat[0]}"]
    for line in flat[1:]:
        blank = "" if line.startswith("\t") or not line or line == " */" else " "
        out.append(f"{indent} *{'/' if line == ' */' else blank + line}")
    return [line.rstrip() for line in out]


def needs_fixing(lines):
    return any(len(line.expandtabs(8)) > WIDTH or re.match(r"\t* \*\w", line) for line in lines)


def fix(text):
    lines, out, at = text.split("\n"), [], 0
    while at < len(lines):
        match = ALONE.match(lines[at])
        if not match:
            out += fix_trailing(lines[at], out)
            at += 1
            continue
        indent, content, end = match.group(1), [match.group(2).rstrip()], at
        closed = match.group(3)
        while not closed and end + 1 < len(lines):
            end += 1
            inner = INNER.match(lines[end])
            if inner is None:
                closed = lines[end].strip() == "*/"
                content = content + [""] if closed else None
                break
            content.append(inner.group(1).rstrip())
            closed = inner.group(2)
        block = lines[at:end + 1]
        if content and closed and needs_fixing(block):
            block = fix_block(indent, content)
        out += block
        at = end + 1
    return "\n".join(out)


def fix_trailing(line, before):
    """A comment that makes its line too wide moves above it."""
    match = TRAILING.match(line)
    if len(line.expandtabs(8)) <= WIDTH or not match or '"' in match.group(3) or (
            before and before[-1].endswith("\\")):
        return [line]
    indent, code, comment = match.groups()
    return [*fix_block(indent, [comment]), indent + code]
