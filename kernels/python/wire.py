"""Frames on the control socket (see kernels/PROTOCOL.md)."""

import json
import os
import socket
import struct

MAX_FRAME = 16 << 20
CONTROL_FD = 3


class Wire:
    """The control socket, moved to where cells are unlikely to meet it."""

    def __init__(self, fd):
        import fcntl
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200)
        os.close(fd)
        self.sock = socket.socket(fileno=high)
        self.sock.setblocking(True)
        self.pid = os.getpid()

    def send(self, **frame):
        if os.getpid() != self.pid:
            return  # a child that the cell forked has no say here
        data = json.dumps(frame, ensure_ascii=False, default=str).encode("utf-8", "replace")
        self.sock.sendall(struct.pack(">I", len(data)) + data)

    def _exactly(self, n):
        data = b""
        while len(data) < n:
            piece = self.sock.recv(n - len(data))
            if not piece:
                return None
            data += piece
        return data

    def receive(self):
        """The next frame, or None when execd has closed the socket."""
        head = self._exactly(4)
        if head is None:
            return None
        (length,) = struct.unpack(">I", head)
        if length > MAX_FRAME:
            return None
        data = self._exactly(length)
        return None if data is None else json.loads(data)

    def interrupted(self):
        """Has execd asked to stop the cell that it has just sent? The signal itself may have come too early to be
        noticed; the frame is sent before it."""
        import select
        if not select.select([self.sock], [], [], 0)[0]:
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
        data = self._exactly(min(struct.unpack(">I", head)[0], MAX_FRAME))
        return (None if data is None else json.loads(data)), fds
