"""
What the process of a run and the zygote say to each other: a kind (1 byte), a length (4 bytes) and a body.

`K` the compiled code, before any of it runs. `L` a log line: level (1 byte), time (double), text.
`F` the same with fields: after level and time a JSON list of the text and the fields' own JSON. `C` a call: its number,
its operation and its arguments, as JSON. `R` the end: status, result and error, as JSON. `A` the answer to a call, as JSON.
"""

import struct

HEADER = struct.Struct('>cI')
LOG_HEADER = struct.Struct('>Bd')
LEVELS = ('debug', 'info', 'warn', 'error')
# The largest frame that the host takes is 16 MiB, in JSON.
MAX_BODY = 16 * 1024 * 1024


def frame(kind, body):
    return HEADER.pack(kind, len(body)) + body


class Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self):
        self._bytes = bytearray()

    def feed(self, chunk):
        self._bytes += chunk

    def take(self):
        """The next whole frame as (kind, body), or None. Raises ValueError for what is no frame of ours."""
        if len(self._bytes) < HEADER.size:
            return None
        kind, length = HEADER.unpack_from(self._bytes)
        if length > MAX_BODY:
            raise ValueError('a frame of %d bytes' % length)
        end = HEADER.size + length
        if len(self._bytes) < end:
            return None
        body = bytes(self._bytes[HEADER.size : end])
        del self._bytes[:end]
        return kind, body
