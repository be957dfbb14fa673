"""Values as MIME bundles, and display() for cells."""

import base64
import sys

MAX_TEXT = 1 << 20
MAX_BINARY = 3 << 20

_METHODS = (
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("text/latex", "_repr_latex_"),
    ("application/json", "_repr_json_"),
)


def _text(value):
    """A MIME value as a string; structures become JSON."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, str):
        return value
    import json
    return json.dumps(value, ensure_ascii=False, default=str)


def cut(mime, text):
    """What may travel: cut text with a note, no half images."""
    if mime.startswith("image/") and mime != "image/svg+xml":
        return text if len(text) <= MAX_BINARY else None
    if len(text) <= MAX_TEXT:
        return text
    if mime in ("text/plain", "text/html", "text/markdown"):
        return text[:MAX_TEXT] + "\n... (cut: %d of %d characters shown)" % (MAX_TEXT, len(text))
    return None


def limited(data):
    out = {}
    for mime, value in data.items():
        if value is None:
            continue
        out[mime] = cut(mime, _text(value))  # None: too large, which execd notes
    return out


def plain(value):
    import pprint
    try:
        if isinstance(value, (list, dict, tuple, set, frozenset)) and len(value) > 6:
            return pprint.pformat(value, width=100, compact=True)
        return repr(value)
    except Exception as e:  # a broken __repr__ must not break the cell
        return "<%s whose repr failed: %s>" % (type(value).__name__, e)


def bundle(value):
    """All representations that an object offers."""
    data = {"text/plain": plain(value)}
    if isinstance(value, type):
        return limited(data)  # methods of a class are not about the class
    method = getattr(value, "_repr_mimebundle_", None)
    if callable(method):
        try:
            offered = method(include=None, exclude=None)
            data.update(offered[0] if isinstance(offered, tuple) else offered or {})
        except Exception:
            pass
    for mime, name in _METHODS:
        method = getattr(value, name, None)
        if mime in data or not callable(method):
            continue
        try:
            offered = method()
        except Exception:
            continue
        if offered is not None:
            data[mime] = offered[0] if isinstance(offered, tuple) else offered
    if is_figure(value):
        data["image/png"] = figure_png(value)
    return limited(data)


def is_figure(value):
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(value, module.Figure)


def figure_png(figure):
    import io
    out = io.BytesIO()
    figure.savefig(out, format="png", bbox_inches="tight")
    return out.getvalue()


class Display:
    """display() and the figures that a cell leaves open."""

    def __init__(self, wire):
        self.wire = wire

    def flush(self):
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass

    def show(self, data):
        self.flush()
        self.wire.show(data)

    def __call__(self, *values, raw=False, include=None, exclude=None, metadata=None, **_):
        for value in values:
            self.show(limited(value) if raw else bundle(value))

    def figures(self):
        """Show and close every figure pyplot still holds; what an inline backend does."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return
        try:
            for number in pyplot.get_fignums():
                self.show(bundle(pyplot.figure(number)))
        finally:
            pyplot.close("all")

    def install_backend(self):
        """A matplotlib backend that draws into memory and shows through us. MPLBACKEND names it before anybody
        imports matplotlib; it is made when matplotlib asks for it."""
        import os
        Backend.display = self
        if not any(isinstance(finder, Backend) for finder in sys.meta_path):
            sys.meta_path.append(Backend())
        os.environ.setdefault("MPLBACKEND", "module://" + Backend.name)


class Backend:
    """Finds and loads the module of the backend."""

    name, display = "osb_figures", None

    def find_spec(self, name, _path=None, _target=None):
        if name != self.name:
            return None
        from importlib.machinery import ModuleSpec
        return ModuleSpec(name, self)

    def create_module(self, _spec):
        return None

    def exec_module(self, module):
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        def show(*_, **__):
            Backend.display.figures()

        module.FigureCanvas = FigureCanvasAgg
        module.show = show
