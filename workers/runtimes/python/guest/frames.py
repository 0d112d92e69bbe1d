"""Frames between the host and this process: a length (4 bytes, big endian) and a JSON text."""

import json
import struct

_LENGTH = struct.Struct('>I')


class Connection:
    """The connection to the host. It blocks: whoever waits for the host has nothing else to do."""

    def __init__(self, sock):
        self.sock = sock

    def receive(self):
        """The next message, or None when the host is gone."""
        header = self._read(_LENGTH.size)
        body = header and self._read(_LENGTH.unpack(header)[0])
        return json.loads(body) if body else None

    def send(self, message):
        body = json.dumps(message, separators=(',', ':')).encode()
        self.sock.sendall(_LENGTH.pack(len(body)) + body)

    def _read(self, size):
        read = bytearray()
        while len(read) < size:
            chunk = self.sock.recv(size - len(read))
            if not chunk:
                return None
            read += chunk
        return bytes(read)
