# One query in a process of its own, without a sandbox: connects, asks, ends. A machine need not have a driver for Python,
# and loading one takes longer than this, which speaks as much of PostgreSQL's protocol as the query needs.
import base64
import hashlib
import hmac
import json
import os
import socket
import struct
import sys
from urllib.parse import unquote, urlsplit


class Connection:
    def __init__(self, url):
        self.socket = socket.create_connection((url.hostname, url.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def send(self, kind, body):
        self.socket.sendall(kind + struct.pack("!I", len(body) + 4) + body)

    def receive(self):
        kind = self.file.read(1)
        body = self.file.read(struct.unpack("!I", self.file.read(4))[0] - 4)
        if kind == b"E":
            raise RuntimeError(body.decode("utf-8", "replace"))
        return kind, body

    def until(self, wanted):
        while True:
            kind, body = self.receive()
            if kind == wanted:
                return body


def digest(key, message):
    return hmac.new(key, message, hashlib.sha256).digest()


def log_in(connection, password):
    """SCRAM-SHA-256 (RFC 5802), without looking at the server's own proof."""
    nonce = base64.b64encode(os.urandom(18)).decode()
    bare = "n=,r=" + nonce
    first = ("n,," + bare).encode()
    connection.send(b"p", b"SCRAM-SHA-256\0" + struct.pack("!I", len(first)) + first)
    challenge = connection.until(b"R")[4:].decode()
    fields = dict(part.split("=", 1) for part in challenge.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    key = digest(salted, b"Client Key")
    last = "c=biws,r=" + fields["r"]
    signed = digest(hashlib.sha256(key).digest(), ",".join((bare, challenge, last)).encode())
    proof = bytes(a ^ b for a, b in zip(key, signed))
    connection.send(b"p", (last + ",p=" + base64.b64encode(proof).decode()).encode())


def connect(address):
    url = urlsplit(address)
    connection = Connection(url)
    names = ["user", unquote(url.username), "database", unquote(url.path[1:])]
    start = struct.pack("!I", 196608) + "".join(name + "\0" for name in names).encode() + b"\0"
    connection.socket.sendall(struct.pack("!I", len(start) + 4) + start)
    if struct.unpack("!I", connection.until(b"R")[:4])[0] == 10:
        log_in(connection, unquote(url.password))
    connection.until(b"Z")
    return connection


def query(connection, sql, value):
    """One parameter, one row of one column: texts."""
    connection.send(b"P", b"\0" + sql.encode() + b"\0\0\0")
    parameter = value.encode()
    connection.send(b"B", b"\0\0\0\0\0\1" + struct.pack("!I", len(parameter)) + parameter + b"\0\0")
    connection.send(b"E", b"\0\0\0\0\0")
    connection.send(b"S", b"")
    row = connection.until(b"D")
    connection.until(b"Z")
    return row[6:].decode()


def handler(payload):
    connection = connect(os.environ["BENCH_DATABASE_URL"])
    n = int(query(connection, "select $1::int as n", "1"))
    connection.send(b"X", b"")
    connection.socket.close()
    return {"n": n}


sys.stdout.write(json.dumps(handler(json.loads(sys.argv[1]))))
