"""
The way out. This namespace has no network but its own loopback: a listener made here, before any user code, is handed to
the host, which serves a proxy on it. It goes over the channel that Node opens to child processes, as Node's own children
would send it.
"""

import array
import json
import socket

_MESSAGE = {'cmd': 'NODE_HANDLE', 'type': 'net.Server', 'msg': 'proxy'}


def hand_over_listener(channel_fd):
    """The port on which the host now serves its proxy. Returns when the host has taken the listener and hung up."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(('127.0.0.1', 0))
        listener.listen(64)
        with socket.socket(fileno=channel_fd) as node:
            fds = array.array('i', [listener.fileno()])
            node.sendmsg([json.dumps(_MESSAGE).encode() + b'\n'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            while node.recv(4096):
                pass
        return listener.getsockname()[1]


def proxy_variables(port):
    url = 'http://127.0.0.1:%d' % port
    return {name: url for name in ('http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY')}
