"""
Frames between the host and this process: a length (4 bytes, big endian) and a JSON text.

What the host says of a run holds its payload, its environment and rows of the database. This process, from which all runs
are forked, never parses it: a frame lies in one buffer, which is overwritten before the next run can look into the memory
that it inherits.
"""

import ctypes
import json
import re
import struct

_LENGTH = struct.Struct('>I')
_KEPT_BYTES = 64 * 1024
# The host writes its fields in this order.
_RUN = re.compile(rb'\{"type":"run","run":(\d{1,15}),"function":"([^"\\]{1,200})"')
_ANSWER = re.compile(rb'\{"type":"answer","run":(\d{1,15}),')


class Connection:
    """The connection to the host. It blocks: whoever waits for the host has nothing else to do."""

    def __init__(self, sock):
        self.sock = sock
        self._kept = bytearray(_KEPT_BYTES)
        self._header = bytearray(_LENGTH.size)
        self._frame = memoryview(b'')

    def receive(self):
        """Reads the next frame, unparsed. False when the host is gone."""
        if not self._fill(memoryview(self._header)):
            return False
        length = _LENGTH.unpack(self._header)[0]
        buffer = self._kept if length <= _KEPT_BYTES else bytearray(length)
        self._frame = memoryview(buffer)[:length]
        return self._fill(self._frame)

    def erase(self):
        """Overwrites the frame."""
        if self._frame.nbytes > 0:
            start = ctypes.c_char.from_buffer(self._frame)
            ctypes.memset(ctypes.addressof(start), 0, self._frame.nbytes)
        self._frame = memoryview(b'')

    def run(self):
        """(number of the run, name of its function) when the frame begins a run, else None."""
        found = _RUN.match(self._frame)
        return found and (int(found[1]), found[2].decode())

    def answers(self, run):
        """Whether the frame answers a call of that run."""
        found = _ANSWER.match(self._frame)
        return found is not None and int(found[1]) == run

    def code(self):
        """(name of a function, its source, the path of its entry where it is several files) when the frame brings one, else None."""
        if not bytes(self._frame[:14]) == b'{"type":"code"':
            return None
        message = self.parse()
        return message['function'], message['code'], message['entryFile']

    def pass_on(self, send):
        send(self._frame)

    def size(self):
        return self._frame.nbytes

    def parse(self):
        return json.loads(bytes(self._frame))

    def send(self, message):
        body = json.dumps(message, separators=(',', ':')).encode()
        self.sock.sendall(_LENGTH.pack(len(body)) + body)

    def _fill(self, view):
        while view.nbytes > 0:
            size = self.sock.recv_into(view)
            if size == 0:
                return False
            view = view[size:]
        return True
