"""Frames on the control socket (see kernels/PROTOCOL.md)."""

import json
import os
import socket
import struct

MAX_FRAME = 16 << 20
CONTROL_FD = 3


class Nowhere:
    """A wire that leads nowhere."""

    def send(self, **_):
        pass

    def show(self, _):
        pass


class Wire:
    """The control socket, moved to where cells are unlikely to meet it."""

    def __init__(self, fd):
        import fcntl
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200)
        os.close(fd)
        self.sock = socket.socket(fileno=high)
        self.sock.setblocking(True)
        self.pid = os.getpid()
        self.rest, self.length, self.asked = b"", None, 0
        self.threads = False  # another thread reads

    def send(self, **frame):
        if os.getpid() != self.pid:
            return  # a child that the cell forked has no say here
        data = json.dumps(frame, ensure_ascii=False, default=str).encode("utf-8", "replace")
        self.sock.sendall(struct.pack(">I", len(data)) + data)

    def _exactly(self, n):
        """n bytes. What came before an exception (an interrupt) is kept for the next call."""
        while len(self.rest) < n:
            piece = self.sock.recv(1 << 16)
            if not piece:
                return None
            self.rest += piece
        data, self.rest = self.rest[:n], self.rest[n:]
        return data

    def receive(self):
        """The next frame, or None when execd has closed the socket."""
        if self.length is None:
            head = self._exactly(4)
            if head is None:
                return None
            (self.length,) = struct.unpack(">I", head)
        if self.length > MAX_FRAME:
            return None
        data = self._exactly(self.length)
        if data is None:
            return None
        self.length = None
        return json.loads(data)

    def show(self, data):
        """Something to display, now: what is printed next must not overtake it, so execd's answer is waited for.
        Another thread than the one that runs cells cannot wait."""
        import threading
        if os.getpid() != self.pid:
            return
        if self.threads or threading.current_thread() is not threading.main_thread():
            self.send(op="display", data=data)
            return
        self.asked += 1
        self.send(op="display", data=data, ack=self.asked)
        while True:
            frame = self.receive()
            if frame is None:
                os._exit(0)
            if frame.get("op") == "interrupt":
                raise KeyboardInterrupt
            if frame.get("op") == "ack" and frame.get("n") == self.asked:
                return

    def interrupted(self):
        """Has execd asked to stop the cell that it has just sent? The signal itself may have come too early to be
        noticed; the frame is sent before it."""
        import select
        if not self.rest and not select.select([self.sock], [], [], 0)[0]:
            return False
        frame = self.receive()
        if frame is None:
            os._exit(0)
        return frame.get("op") == "interrupt"

    def receive_with_fds(self):
        """The next frame and the descriptors that came with its first byte."""
        import array
        size = array.array("i").itemsize
        head, fds = b"", []
        while len(head) < 4:
            piece, ancillary, _, _ = self.sock.recvmsg(4 - len(head), socket.CMSG_SPACE(8 * size))
            if not piece:
                return None, fds
            for level, kind, data in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    got = array.array("i")
                    got.frombytes(data[:len(data) - len(data) % size])
                    fds += list(got)
            head += piece
        length = min(struct.unpack(">I", head)[0], MAX_FRAME)
        data = b""
        while len(data) < length:  # no further: the next frame's first byte brings descriptors
            piece = self.sock.recv(length - len(data))
            if not piece:
                return None, fds
            data += piece
        return json.loads(data), fds
