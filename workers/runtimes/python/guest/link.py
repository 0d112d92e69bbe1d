"""The side of the channel that the process of a run has."""

import json
import os
import threading
import time

import channel


# The names of the fields come on top, in the frame to the host.
_MAX_CALL = channel.MAX_BODY - 1024


class Link:
    """
    What was begun is finished, also when a signal handler of the user's raises in the middle: bytes that wait to be
    sent, and bytes of an answer that has not arrived whole, are kept for the next call.
    """

    def __init__(self, sock):
        self._sock = sock
        self._out = bytearray()
        self._frames = channel.Frames()
        self._lock = threading.RLock()
        self._calls = 0
        self.owner = os.getpid()

    def send(self, kind, body):
        with self._lock:
            self._out += channel.frame(kind, body)
            while self._out:
                del self._out[: self._sock.send(self._out)]

    def log(self, level, text, fields=None):
        header = channel.LOG_HEADER.pack(channel.LEVELS.index(level), time.time() * 1000)
        if fields is None:
            self.send(b'L', header + text.encode('utf-8', 'surrogatepass'))
        else:
            self.send(b'F', header + json.dumps([text, fields]).encode())

    def call(self, op, args):
        """Asks the world outside. Returns (ok, JSON text); one call at a time, whatever the number of threads."""
        if os.getpid() != self.owner:
            raise RuntimeError('The sdk works in the process of the handler only.')
        with self._lock:
            self._calls += 1
            number = self._calls
            body = json.dumps([number, op, args]).encode()
            if len(body) > _MAX_CALL:
                message = '%s: the call is too long. Send it in parts.' % op
                return False, json.dumps({'name': 'TypeError', 'message': message})
            self.send(b'C', body)
            while True:
                answered, ok, value = self._answer()
                if answered == number:
                    return ok, value

    def _answer(self):
        while True:
            found = self._frames.take()
            if found is not None:
                message = json.loads(found[1])
                return message['call'], message['ok'], message['value']
            chunk = self._sock.recv(1 << 18)
            if not chunk:
                os._exit(70)
            self._frames.feed(chunk)
