"""Other languages, by the Jupyter kernels that an image brings: this driver speaks their protocol with the
jupyter_client that such images have."""

import os
import queue
import signal
import sys
import threading

import osb_display


def find(language):
    """The name of the kernelspec that is called so or that is of this language."""
    from jupyter_client.kernelspec import KernelSpecManager
    specs = KernelSpecManager().get_all_specs()
    if language in specs:
        return language
    for name, spec in sorted(specs.items()):
        if spec["spec"].get("language", "").lower() == language.lower():
            return name
    raise LookupError("no Jupyter kernel for %s" % language)


class Kernel:
    """A kernel of somebody else's, behind our own frames."""

    def __init__(self, wire, language):
        from jupyter_client.manager import KernelManager
        self.wire, self.count = wire, 0
        self.display = osb_display.Display(wire)
        self.manager = KernelManager(kernel_name=find(language))
        self.manager.start_kernel(stdout=1, stderr=2)
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=240)

    def run(self, code):
        asked = self.client.execute(code, allow_stdin=False, stop_on_error=True)
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=1)
            except queue.Empty:
                if not self.manager.is_alive():
                    self.wire.send(op="error", ename="KernelDied", evalue="the Jupyter kernel ended", traceback=[])
                    os._exit(1)
                continue
            if message["parent_header"].get("msg_id") != asked:
                continue  # of another cell, or of nobody
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return
            self.take(kind, content)

    def take(self, kind, content):
        if kind == "stream":
            out = sys.stderr if content["name"] == "stderr" else sys.stdout
            out.write(content["text"])
            out.flush()
        elif kind == "execute_input":
            self.count = content.get("execution_count") or self.count
        elif kind == "execute_result":
            self.wire.send(op="result", data=osb_display.limited(content["data"]),
                           count=content.get("execution_count") or self.count)
        elif kind in ("display_data", "update_display_data"):
            self.display.show(osb_display.limited(content["data"]))
        elif kind == "error":
            self.wire.send(op="error", ename=content.get("ename") or "Error", evalue=str(content.get("evalue", "")),
                           traceback=[line for part in content.get("traceback", []) for line in part.split("\n")])


def serve(wire, language):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the frame counts
    kernel, cells = Kernel(wire, language), queue.Queue()

    def read():
        while True:
            frame = wire.receive()
            if frame is None or frame.get("op") == "exit":
                kernel.manager.shutdown_kernel(now=True)
                os._exit(0)
            if frame.get("op") == "run":
                cells.put(frame["code"])
            elif frame.get("op") == "interrupt":
                kernel.manager.interrupt_kernel()

    wire.threads = True
    wire.send(op="ready", language=language, version="")
    threading.Thread(target=read, daemon=True).start()
    while True:
        code = cells.get()
        kernel.run(code)
        wire.send(op="done", count=kernel.count)
