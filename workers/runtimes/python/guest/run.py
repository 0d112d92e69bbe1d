"""The zygote's side of one run: forks its process, passes on what it says, and leaves nothing of it behind."""

import json
import os
import select
import signal
import socket

import channel
import child
import fence

_MAX_LOG_BYTES = 256 * 1024
_MAX_LINE = 64 * 1024
_LINE_BYTES = 32
_CHUNK = 1 << 18
_STATUSES = ('success', 'error', 'result_too_large', 'memory_limit')
_FORMS = (None, 'text', 'base64', 'sent')


class Run:
    def __init__(self, number, code, host, zygote):
        self._id = number
        self._code = code
        self._host = host
        self._zygote = zygote
        self._frames = channel.Frames()
        self._partial = {}
        self._lines = []
        self._room = _MAX_LOG_BYTES
        self._truncated = False
        self._expects_code = code[1] is None
        self._verdict = None
        self.compiled = None

    def perform(self):
        """Returns the frame that answers the run. Everything of the run is gone by then, or `retire` is set."""
        before = fence.state()
        pid, status, cpu, resident = self._fork_and_follow()
        self._flush_logs()
        verdict = self._verdict or self._crash(status)
        wiped = fence.wipe(self._zygote.folder, self._zygote.in_namespace)
        wiped = wiped and fence.folder_state(self._zygote.folder) == self._zygote.folder_state
        return {
            'type': 'result',
            'run': self._id,
            'status': verdict[0],
            'result': verdict[1],
            'error': verdict[2],
            'response': verdict[3],
            'cpuMs': cpu * 1000,
            'memoryMib': max(0, resident - self._zygote.resident) / 1024,
            'retire': verdict[0] in ('crashed', 'cpu_limit', 'memory_limit') or not wiped or fence.state() != before,
        }

    def _fork_and_follow(self):
        workspace = os.path.join(self._zygote.folder, 'run-%d' % self._id)
        os.mkdir(workspace, 0o700)
        ours, theirs = socket.socketpair()
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        pid = os.fork()
        if pid != 0:
            self._host.erase()
        else:
            fds = (theirs.fileno(), out_end, err_end)
            child.run(self._host, self._code, workspace, fds, self._zygote.environment(workspace))
        theirs.close()
        os.close(out_end)
        os.close(err_end)
        for fd in (out, err):
            os.set_blocking(fd, False)
        self._channel, self._pipes = ours, {out: 'info', err: 'error'}
        self._partial = {out: b'', err: b''}
        try:
            self._follow(pid)
        finally:
            ended = fence.kill_all(pid, self._zygote.in_namespace)
            self._drain()
        return (pid, *ended)

    def _follow(self, pid):
        """Until the process has answered, broken the rules or ended."""
        ended = os.pidfd_open(pid)
        poll = select.poll()
        for fd in (*self._pipes, self._channel.fileno(), self._host.sock.fileno(), ended):
            poll.register(fd, select.POLLIN)
        try:
            while self._verdict is None:
                ready = {fd for fd, _ in poll.poll()}
                if self._host.sock.fileno() in ready:
                    self._pass_answer()
                for fd in ready & self._pipes.keys():
                    if not self._read_pipe(fd):
                        poll.unregister(fd)
                if self._channel.fileno() in ready and not self._read_channel():
                    poll.unregister(self._channel.fileno())
                self._flush_logs()
                if ended in ready:
                    return
        finally:
            os.close(ended)

    def _pass_answer(self):
        if not self._host.receive():
            os._exit(0)
        try:
            if self._host.answers(self._id):
                self._channel.sendall(channel.HEADER.pack(b'A', self._host.size()))
                self._host.pass_on(self._channel.sendall)
        except OSError:
            # The process has ended.
            pass
        finally:
            self._host.erase()

    def _read_channel(self):
        """False when there is nothing more to come."""
        try:
            chunk = self._channel.recv(_CHUNK)
        except ConnectionError:
            return False
        self._frames.feed(chunk)
        try:
            self._take_frames()
        except (ValueError, TypeError, IndexError, KeyError, RecursionError, channel.struct.error):
            self._verdict = _broken('The function wrote to a file descriptor that is not its own.')
        return bool(chunk)

    def _take_frames(self):
        while self._verdict is None:
            found = self._frames.take()
            if found is None:
                return
            kind, body = found
            if kind == b'L':
                level, time = channel.LOG_HEADER.unpack_from(body)
                text = body[channel.LOG_HEADER.size :].decode('utf-8', 'surrogatepass')
                self._log(channel.LEVELS[level], text, time)
            elif kind == b'F':
                level, time = channel.LOG_HEADER.unpack_from(body)
                text, fields = json.loads(body[channel.LOG_HEADER.size :])
                if type(text) is not str or type(fields) is not str:
                    raise ValueError('not a line')
                self._log(channel.LEVELS[level], text, time, fields)
            elif kind == b'C':
                self._call(json.loads(body))
            elif kind == b'R':
                self._end(json.loads(body))
            elif kind == b'K' and self._expects_code:
                self.compiled = body
            else:
                raise ValueError('an unknown frame')
            self._expects_code = False

    def _call(self, call):
        number, op, args = call
        if type(number) is not int or type(op) is not str or type(args) is not str:
            raise ValueError('not a call')
        self._flush_logs()
        self._host.send(
            {'type': 'call', 'run': self._id, 'call': abs(number) % (1 << 48), 'op': op[:64], 'args': args}
        )

    def _end(self, end):
        status, result, error, response = end
        if status not in _STATUSES or response not in _FORMS or not isinstance(result, (str, type(None))):
            raise ValueError('not an end')
        if error is not None:
            error = {name: str(error[name]) for name in ('name', 'message', 'stack')}
        self._verdict = (status, result, error, response)

    def _crash(self, status):
        """How a process came to its end without an answer."""
        if not os.WIFSIGNALED(status):
            return _broken('The function ended its process (exit code %d).' % os.WEXITSTATUS(status))
        number = os.WTERMSIG(status)
        if number == signal.SIGXCPU:
            return 'cpu_limit', None, None, None
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = 'signal %d' % number
        return _broken('The process of the function was ended by %s.' % name)

    def _read_pipe(self, fd):
        """What programs that the function started have written; False at the end."""
        try:
            chunk = os.read(fd, _CHUNK)
        except BlockingIOError:
            return True
        *lines, rest = (self._partial[fd] + chunk).split(b'\n')
        if len(rest) > _MAX_LINE or not chunk:
            lines, rest = [*lines, rest] if rest else lines, b''
        self._partial[fd] = rest
        for line in lines:
            self._log(self._pipes[fd], line.decode('utf-8', 'replace'))
        return bool(chunk)

    def _log(self, level, text, time=None, fields=None):
        self._room -= len(text) + len(fields or '') + _LINE_BYTES
        if self._room < 0:
            self._truncated = True
            return
        line = (self._zygote.now_ms() if time is None else time, level, text)
        self._lines.append(line if fields is None else (*line, fields))

    def _flush_logs(self):
        if not self._lines and not (self._truncated and self._room < 0):
            return
        self._host.send({'type': 'logs', 'run': self._id, 'lines': self._lines, 'truncated': self._truncated})
        self._lines = []
        if self._truncated:
            # Said once; what comes now is dropped without a word.
            self._room, self._truncated = -_MAX_LOG_BYTES, False

    def _drain(self):
        """Nobody writes any more: what is still on its way is read to the end."""
        while self._verdict is None and self._read_channel():
            pass
        for fd in self._pipes:
            while self._read_pipe(fd):
                pass
            os.close(fd)
        self._channel.close()


def _broken(why):
    return 'crashed', None, {'name': 'CrashError', 'message': why, 'stack': ''}, None
