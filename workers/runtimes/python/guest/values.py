"""What leaves a run: results and arguments as JSON, errors as text."""

import datetime
import decimal
import json
import sys
import traceback
import uuid

MAX_RESULT_BYTES = 1024 * 1024
_MAX_MESSAGE = 4096
_MAX_STACK = 8192
FILE_NAME = 'function.py'


class Nothing:
    """Null, where None itself will not do."""

    __slots__ = ()


def _plain(value):
    """What JSON has no word for. Decimals stay exact as text, as the database answers them."""
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, Nothing):
        return None
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return list(value)
    if hasattr(type(value), '__dataclass_fields__'):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    raise TypeError('Object of type %s is not JSON serializable' % type(value).__name__)


def _for_result(value):
    if isinstance(value, (bytes, bytearray, memoryview)):
        import base64

        return base64.b64encode(value).decode()
    return _plain(value)


def _for_database(value):
    if isinstance(value, (bytes, bytearray, memoryview)):
        return '\\x' + bytes(value).hex()
    if isinstance(value, datetime.timedelta):
        return '%.6f seconds' % value.total_seconds()
    return _plain(value)


def _dump(value, default):
    options = {'default': default, 'allow_nan': False, 'separators': (',', ':')}
    text = json.dumps(value, ensure_ascii=False, **options)
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        # Lone surrogates: JSON can hold them, UTF-8 cannot.
        return json.dumps(value, **options)


def result_text(value):
    return _dump(value, _for_result)


def arguments_text(value):
    return _dump(value, _for_database)


def error_of(error, own_folder):
    """Name, message and traceback of an exception, without the frames of the interpreter and of this folder."""
    return {
        'name': type(error).__name__[:256],
        'message': _message(error)[:_MAX_MESSAGE],
        'stack': _stack(error, own_folder),
    }


def _message(error):
    try:
        return str(error)
    except Exception:
        return 'an error that cannot be shown'


def _stack(error, own_folder):
    hidden = (own_folder, sys.base_prefix + '/lib', '<frozen')
    try:
        shown = traceback.TracebackException(type(error), error, error.__traceback__, lookup_lines=False)
        for part in _chain(shown):
            frames = [frame for frame in part.stack if not frame.filename.startswith(hidden)]
            part.stack = traceback.StackSummary.from_list(frames)
        text = ''.join(shown.format())
    except Exception:
        return ''
    return text if len(text) <= _MAX_STACK else text[: _MAX_STACK // 2] + '\n…\n' + text[-_MAX_STACK // 2 :]


def _chain(first):
    parts, seen = [first], set()
    while parts:
        part = parts.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        parts += [part.__cause__, part.__context__, *(getattr(part, 'exceptions', None) or ())]
