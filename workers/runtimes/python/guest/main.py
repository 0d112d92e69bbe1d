"""
Runs inside the sandbox: imports Python once, then takes one function after another from the host (frames on descriptor 3)
and runs each in a process of its own, forked from here. Nothing of the user's runs in this process.
Arguments: `namespace` when this process has a process namespace to itself.
"""

import gc
import os
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import allocator
import fence
import frames
import network
import pack
import run
import warm

del sys.path[0]

_MAX_CODE_BYTES = 16 * 1024 * 1024
_CA_FILE = '/etc/ssl/certs/ca-certificates.crt'


def _add_installed_packages():
    """What the system's own packages brought, `requests` for instance; `-S` has kept Python from finding them."""
    version = 'python%d.%d' % sys.version_info[:2]
    prefix = sys.base_prefix
    folders = [
        '/usr/lib/python3/dist-packages' if prefix == '/usr' else '',
        '%s/lib/%s/site-packages' % (prefix, version),
        '%s/local/lib/%s/dist-packages' % (prefix, version),
    ]
    sys.path.extend(folder for folder in folders if os.path.isdir(folder))


class Zygote:
    def __init__(self, host, in_namespace, proxy):
        self._host = host
        self.in_namespace = in_namespace
        self._proxy = proxy
        self.folder = self._make_folder()
        self.folder_state = fence.folder_state(self.folder)
        self._functions = {}
        self.resident = 0

    def serve(self):
        while True:
            if not self._host.receive():
                return
            code, run = self._host.code(), self._host.run()
            if code is not None:
                self._learn(*code)
            if run is not None:
                self._perform(*run)
            # An answer to a run that is over is nobody's.
            self._host.erase()

    def environment(self, workspace):
        variables = {'PATH': '/usr/bin:/bin', 'HOME': workspace, 'TMPDIR': workspace, 'LANG': 'C.UTF-8', **self._proxy}
        if os.path.exists(_CA_FILE):
            variables['SSL_CERT_FILE'] = _CA_FILE
        return variables

    def now_ms(self):
        return time.time() * 1000

    def settle(self):
        """Objects of this process are not looked at by the collector of a run: their pages stay shared."""
        gc.collect()
        gc.freeze()
        with open('/proc/self/statm') as file:
            self.resident = int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE') // 1024

    def _learn(self, name, source, entry):
        self._make_room(len(source))
        code = source if entry is None else pack.Pack(source, entry)
        self._functions[name] = (code, None)
        if warm.import_for(source if entry is None else code.files[entry]):
            self.settle()

    def _perform(self, number, name):
        code = self._functions[name]
        work = run.Run(number, code, self._host, self)
        answer = work.perform()
        if work.compiled is not None:
            self._functions[name] = (code[0], work.compiled)
        self._host.send(answer)

    def _make_room(self, size):
        while self._functions and size + self._held() > _MAX_CODE_BYTES:
            oldest = next(iter(self._functions))
            del self._functions[oldest]
            self._host.send({'type': 'dropped', 'function': oldest})

    def _held(self):
        return sum(len(source) + len(compiled or b'') for source, compiled in self._functions.values())

    def _make_folder(self):
        if self.in_namespace:
            return '/tmp'
        return _shared_folder()


def _shared_folder():
    """Without a /tmp of its own: a folder that bears the id of this process, and those of dead ones are removed."""
    import shutil
    import tempfile

    prefix = 'plinth-python-'
    base = tempfile.gettempdir()
    for name in os.listdir(base):
        owner = name[len(prefix) :].split('-')[0] if name.startswith(prefix) else ''
        if owner.isdigit() and not os.path.exists('/proc/' + owner):
            shutil.rmtree(os.path.join(base, name), ignore_errors=True)
    return tempfile.mkdtemp(prefix='%s%d-' % (prefix, os.getpid()))


def main():
    host = frames.Connection(socket.socket(fileno=3))
    os.set_inheritable(3, False)
    channel_fd = os.environ.pop('NODE_CHANNEL_FD', None)
    fence.close_inherited({0, 1, 2, 3, int(channel_fd or 3)})
    proxy = {}
    if channel_fd is not None:
        proxy = network.proxy_variables(network.hand_over_listener(int(channel_fd)))
    fence.close_zygote()
    allocator.overwriting.begin()
    _add_installed_packages()
    zygote = Zygote(host, 'namespace' in sys.argv[1:], proxy)
    gc.disable()
    zygote.settle()
    host.send({'type': 'ready'})
    zygote.serve()


main()
