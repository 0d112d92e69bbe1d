"""Standard output, standard error and logging of user code become log lines."""

import io
import logging
import os
import sys
import warnings

# The host keeps 256 KiB of log a run: nobody reads more, so no more is sent.
_MAX_SENT = 288 * 1024
_MAX_LINE = 64 * 1024


class LogStream(io.TextIOWrapper):
    """Text goes out line by line, in the order of all streams; bytes through `.buffer` go the way of any pipe."""

    def __init__(self, fd, link, level):
        raw = io.FileIO(fd, 'w', closefd=False)
        super().__init__(io.BufferedWriter(raw, 8192), 'utf-8', 'backslashreplace', write_through=True)
        self._link = link
        self._level = level
        self._rest = ''
        self._room = _MAX_SENT

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError('write() argument must be str, not %s' % type(text).__name__)
        if os.getpid() != self._link.owner:
            written = super().write(text)
            if '\n' in text:
                super().flush()
            return written
        *lines, self._rest = (self._rest + text).split('\n')
        if len(self._rest) > _MAX_LINE:
            lines.append(self._rest)
            self._rest = ''
        for line in lines:
            self.line(self._level, line)
        return len(text)

    def line(self, level, text):
        if self._room < 0:
            return
        self._room -= len(text) + 32
        self._link.log(level, text[:_MAX_SENT])

    def flush(self):
        if os.getpid() == self._link.owner and self._rest:
            rest, self._rest = self._rest, ''
            self.line(self._level, rest)
        super().flush()


def _level_of(number):
    if number >= logging.ERROR:
        return 'error'
    if number >= logging.WARNING:
        return 'warn'
    return 'info' if number >= logging.INFO else 'debug'


_write_record = logging.StreamHandler.emit


def _emit(self, record):
    """Records keep their level when they are written to our streams, whoever set the handler up."""
    stream = self.stream
    if not isinstance(stream, LogStream) or os.getpid() != stream._link.owner:
        return _write_record(self, record)
    try:
        stream.line(_level_of(record.levelno), self.format(record).rstrip('\n'))
    except RecursionError:
        raise
    except Exception:
        self.handleError(record)


_write_warning = warnings.showwarning


def _show_warning(message, category, filename, lineno, file=None, line=None):
    if file is None and isinstance(sys.stderr, LogStream):
        text = warnings.formatwarning(message, category, filename, lineno, line)
        sys.stderr.line('warn', text.rstrip('\n'))
    else:
        _write_warning(message, category, filename, lineno, file, line)


def install(link):
    """In the process of a run: file descriptors 1 and 2 are pipes to the zygote by now."""
    sys.stdout = sys.__stdout__ = LogStream(1, link, 'info')
    sys.stderr = sys.__stderr__ = LogStream(2, link, 'error')
    logging.StreamHandler.emit = _emit
    # The level is told apart from the text.
    logging._STYLES['%'] = (logging.PercentStyle, '%(message)s')
    # Without any handler this one is used, and `basicConfig` finds the root logger as it expects it.
    logging.lastResort = logging.StreamHandler(sys.stderr)
    logging.getLogger().setLevel(logging.INFO)
    warnings.showwarning = _show_warning


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
