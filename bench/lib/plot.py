"""Plots of a report as SVG, written by hand: bars with a whisker to the 99th percentile, and curves."""

import math
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT = 860, 250, 170
OURS, THEIRS, INK, FAINT = "#2a7f62", "#9aa5b1", "#222", "#888"
COLOURS = (OURS, "#c98a2b", "#4a6fa5", "#a04f6d")


def short(value):
    for least, digits in ((100, 0), (10, 1), (1, 2)):
        if value >= least:
            return f"{value:,.{digits}f}"
    return f"{value:.2g}"


def text(x, y, words, size=12, anchor="start", fill=INK):
    return (f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}">'
            f"{escape(words)}</text>")


def scale(low, high):
    """0..1 for a value, along a logarithm where the values lie far apart."""
    if low > 0 and high / low > 20:
        start = math.log10(low) - 0.5  # the least has a bar, too
        span = math.log10(high) - start
        return True, lambda value: max(0.0, (math.log10(value) - start) / span)
    return False, lambda value: value / high if high else 0.0


def bars(group, top):
    """One bar for each who; the height used."""
    who = [(name, s) for name, s in group["who"].items() if s["ok"]]
    if not who:
        return [], 0
    ends = [s["p99"] if s["n"] > 1 else s["median"] for _, s in who]
    logarithm, at = scale(min(s["median"] for _, s in who), max(ends + [s["median"] for _, s in who]))
    room = WIDTH - LEFT - RIGHT
    words = f"{group['what']} ({group['unit']}, {group['better']} is better{', log scale' if logarithm else ''})"
    out = [text(10, top + 14, words, 13)]
    for i, (name, s) in enumerate(who):
        y = top + 24 + 22 * i
        end = LEFT + room * at(s["median"])
        out += [text(LEFT - 8, y + 12, name, anchor="end"),
                f'<rect x="{LEFT}" y="{y}" width="{max(end - LEFT, 1):.1f}" height="15" '
                f'fill="{OURS if name.startswith("opensandbox") else THEIRS}"/>']
        if s["n"] > 1 and s["p99"] > s["median"]:
            far = LEFT + room * at(s["p99"])
            out.append(f'<path d="M{end:.1f} {y + 7.5}H{far:.1f}M{far:.1f} {y + 4}v7" stroke="{INK}" fill="none"/>')
            end = far
        failed = "" if s["ok"] == s["n"] else f", {s['ok']} of {s['n']}"
        out.append(text(end + 6, y + 12, short(s["median"]) + failed))
    return out, 24 + 22 * len(who) + 14


def curves(curve, top):
    """Lines over a common axis; the height used."""
    height = 150
    points = [p for line in curve["points"].values() for p in line]
    high_x, high_y = max(x for x, _ in points) or 1, max(y for _, y in points) or 1
    room = WIDTH - LEFT - RIGHT
    out = [text(10, top + 14, f"{curve['what']} ({curve['unit']})", 13)]
    base = top + 28 + height
    out += [f'<path d="M{LEFT} {base - height}V{base}H{LEFT + room}" stroke="{FAINT}" fill="none"/>',
            text(LEFT - 8, base - height + 8, short(high_y), anchor="end"), text(LEFT - 8, base, "0", anchor="end"),
            text(LEFT + room, base + 16, f"{high_x:,} {curve['along']}", anchor="end")]
    for i, (name, line) in enumerate(curve["points"].items()):
        path = "L".join(f"{LEFT + room * x / high_x:.1f} {base - height * y / high_y:.1f}" for x, y in line)
        x, y = line[-1]
        out += [f'<path d="M{path}" stroke="{COLOURS[i % len(COLOURS)]}" stroke-width="2" fill="none"/>',
                text(LEFT + room * x / high_x + 6, base - height * y / high_y + 4, name,
                     fill=COLOURS[i % len(COLOURS)])]
    return out, height + 28 + 32


def draw(data, taken):
    """taken: words for where and when; a plot is also seen without its page."""
    out, top = [], 52
    for shape, things in ((bars, data["groups"]), (curves, data["curves"])):
        for thing in things:
            lines, used = shape(thing, top)
            out += lines
            top += used
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" font-family="sans-serif">',
            f'<rect width="{WIDTH}" height="{top}" fill="#fff"/>', text(10, 22, data["title"], 16),
            text(10, 38, taken, 10, fill=FAINT)]
    return "\n".join(head + out + ["</svg>"]) + "\n"
