"""Runs cells with the IPython that the image brings: its magics, completions of history, rich display."""

import sys

import osb_display
import osb_shell


def available():
    import importlib.util
    return importlib.util.find_spec("IPython") is not None


class IPythonShell(osb_shell.Shell):
    """The same face as Shell; IPython does the work."""

    def __init__(self, wire):
        from IPython.core.displayhook import DisplayHook
        from IPython.core.displaypub import DisplayPublisher
        from IPython.core.interactiveshell import InteractiveShell
        self.wire, self.count = wire, 0
        self.display = osb_display.Display(wire)
        outer = self

        class Publisher(DisplayPublisher):
            def publish(self, data, metadata=None, source=None, *, transient=None, update=False,
                        **kwargs):
                outer.display.show(osb_display.limited(data))

            def clear_output(self, wait=False):
                pass

        class Hook(DisplayHook):
            def write_output_prompt(self):
                pass

            def write_format_data(self, format_dict, md_dict=None):
                outer.display.flush()
                outer.wire.send(op="result", data=osb_display.limited(format_dict),
                                count=outer.count)

            def finish_displayhook(self):
                pass

        class Embedded(InteractiveShell):
            display_pub_class = Publisher
            displayhook_class = Hook

            system = InteractiveShell.system_raw  # straight to our descriptors

            def enable_gui(self, gui=None):
                pass

            def _showtraceback(self, etype, evalue, stb):
                outer.error = (etype, evalue, stb)

            def showsyntaxerror(self, filename=None, running_compiled_code=False, **kwargs):
                outer.error = (*sys.exc_info()[:2], None)

        from traitlets.config import Config
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "NoColor"
        config.InteractiveShell.xmode = "Context"
        self.shell = Embedded.instance(config=config)
        self.shell.display_formatter.active_types = [
            "text/plain", "text/html", "text/markdown", "image/svg+xml", "image/png", "image/jpeg",
            "text/latex", "application/json"]
        self.error = None
        self.shell.user_ns["input"] = osb_shell.no_input
        import builtins
        builtins.input = osb_shell.no_input
        self._figure_formatter()

    def _figure_formatter(self):
        self.shell.display_formatter.formatters["image/png"].for_type_by_name(
            "matplotlib.figure", "Figure", osb_display.figure_png)

    def forget(self):
        self.shell.reset()
        self.shell.user_ns["input"] = osb_shell.no_input

    def run(self, code):
        self.count += 1
        self.error = None
        try:
            with osb_shell.interruptible():
                done = self.shell.run_cell(code, store_history=True)
        except BaseException as error:
            osb_shell.block_interrupt()  # one may have struck on the way out
            self._fail_plain(error)
            return False
        error = done.error_before_exec or done.error_in_exec
        if error is None and self.error is not None:
            error = self.error[1]
        if error is None:
            self.display.figures()
            return True
        self._fail_plain(error)
        return False

    def _fail_plain(self, error):
        kind, _, lines = self.error or (type(error), error, None)
        if not lines:
            import traceback
            lines = "".join(traceback.format_exception(type(error), error, None)).split("\n")
        text = "\n".join(lines)[-osb_display.MAX_TEXT:]
        self.display.flush()
        self.wire.send(op="error", ename=type(error).__name__ if kind is None else kind.__name__,
                       evalue=str(error)[:65536], traceback=text.rstrip("\n").split("\n")[-2000:])
