"""The object that a handler gets beside its payload (interface, "Functions")."""

import base64
import builtins
import json
import os
import sys

import background
import steps
import values
import web


class CallError(Exception):
    """A call to the outside failed. What else is known about it is in its attributes."""

    code = detail = hint = position = constraint = table = column = None


class DatabaseError(CallError):
    """The database refused: `code` is the SQLSTATE."""


CallError.__module__ = DatabaseError.__module__ = 'builtins'


def _fault(text):
    fields = json.loads(text)
    name, message = str(fields.pop('name', 'Error')), str(fields.pop('message', ''))
    error = _class_of(name)(message)
    for field, value in fields.items():
        setattr(error, field, value)
    return error


def _class_of(name):
    if name == 'DatabaseError':
        return DatabaseError
    if name == 'StorageError':
        return StorageError
    known = getattr(builtins, name, None)
    is_error = isinstance(known, type) and issubclass(known, Exception) and known.__new__ is Exception.__new__
    bases = (CallError, known) if is_error else (CallError,)
    return type(name, bases, {'__module__': 'builtins'})


class _Awaitable:
    """
    A value that may be awaited, or be used as it is: what calls answer inside of `async def`. It is a coroutine too,
    one that is over at once, for `asyncio.create_task`.
    """

    __slots__ = ()
    __hash__ = object.__hash__

    def _value(self):
        return self

    def __await__(self):
        return self._value()
        yield

    def send(self, value):
        raise StopIteration(self._value())

    def throw(self, *error):
        raise error[0]

    def close(self):
        pass


class _Rows(_Awaitable, list):
    pass


class _Row(_Awaitable, dict):
    pass


class _Count(_Awaitable, int):
    __hash__ = int.__hash__


class _Nothing(_Awaitable, values.Nothing):
    """No row: false, and None when it is awaited."""

    def __bool__(self):
        return False

    def _value(self):
        return None


def _in_coroutine():
    events = sys.modules.get('asyncio.events')
    return events is not None and events._get_running_loop() is not None


def _answered(value):
    if not _in_coroutine():
        return value
    if value is None:
        return _Nothing()
    for plain, awaitable in ((list, _Rows), (dict, _Row), (int, _Count)):
        if type(value) is plain:
            return awaitable(value)
    return value


class _Operations:
    def __init__(self, call, tx):
        self._call = call
        self._tx = tx

    def _ask(self, op, **args):
        return _answered(self._call(op, dict(args, tx=self._tx)))

    def query(self, sql, params=None):
        return self._ask('db.query', sql=sql, **_bound(params))

    def query_one(self, sql, params=None):
        return self._ask('db.queryOne', sql=sql, **_bound(params))

    def insert(self, table, data):
        return self._ask('db.insert', table=table, data=data)

    def select(self, table, where=None, params=None):
        condition = {} if where is None else {'where': where}
        return self._ask('db.select', table=table, **_bound(params), **condition)

    def update(self, table, data, where, params=None):
        return self._ask('db.update', table=table, data=data, where=where, **_bound(params))

    def remove(self, table, where, params=None):
        return self._ask('db.remove', table=table, where=where, **_bound(params))


class Jobs:
    """Jobs that run functions of the project. Those of a transaction exist only if it commits."""

    def __init__(self, call, transactions):
        self._call = call
        self._transactions = transactions

    def _enqueued(self, slug, jobs):
        # Within the block of a transaction, as far as that can be known: when it is the only one that is open.
        [tx] = self._transactions if len(self._transactions) == 1 else [None]
        return self._call('jobs.enqueue' if tx is None else 'db.enqueue', {'tx': tx, 'slug': slug, 'jobs': jobs})

    def enqueue_many(self, slug, jobs):
        return _answered(self._enqueued(slug, list(jobs)))

    def enqueue(self, slug, payload=None, **options):
        return _answered(self._enqueued(slug, [dict(options, payload=payload)])[0])

    enqueueMany = enqueue_many


class Events:
    """Events of the project's own, which functions with a trigger for them answer to."""

    def __init__(self, call):
        self._call = call

    def emit(self, name, data=None):
        return _answered(self._call('events.emit', {'name': name, 'data': data}))


class _TransactionOperations(_Operations):
    @property
    def jobs(self):
        return Jobs(self._call, [self._tx])


def _bound(params):
    """
    Without params `%` is a character like any other, hence None is not the same as none.
    One value alone is most likely a tuple whose comma was forgotten.
    """
    if params is None:
        return {'style': 'percent'}
    if isinstance(params, (str, bytes, dict)) or not hasattr(params, '__iter__'):
        raise TypeError('params must be a tuple or a list, for instance (%r,)' % (params,))
    return {'style': 'percent', 'params': list(params)}


class Database(_Operations):
    """The project's own database. Names of tables and columns are quoted outside, values are bound there."""

    DatabaseError = DatabaseError

    def __init__(self, call):
        super().__init__(call, None)
        self.open_transactions = []

    def transaction(self, work=None):
        """
        `with db.transaction() as tx:` keeps what the block does whole, or drops it when the block raises.
        `db.transaction(work)` does the same around `work(tx)`, which may be an `async def`, and answers its result.
        """
        transaction = Transaction(self._call, self.open_transactions)
        return transaction if work is None else _within(transaction, work)


def _within(transaction, work):
    with transaction as tx:
        result = work(tx)
        if not hasattr(result, '__await__') or isinstance(result, _Awaitable):
            return result
        transaction.hand_over()
    return _awaited(transaction, result)


async def _awaited(transaction, result):
    async with transaction:
        return await result


class Transaction:
    def __init__(self, call, open_transactions):
        self._call = call
        self._open = open_transactions
        self._tx = None
        self._handed_over = False

    def hand_over(self):
        """The end of a `with` block is not the end of the transaction: a coroutine takes it over."""
        self._handed_over = True

    def __enter__(self):
        if self._tx is None:
            self._tx = self._call('db.begin', {})
            self._open.append(self._tx)
        return _TransactionOperations(self._call, self._tx)

    def __exit__(self, kind, error, trace):
        if self._handed_over:
            self._handed_over = False
            return
        self._open.remove(self._tx)
        if kind is None:
            self._call('db.commit', {'tx': self._tx})
        else:
            self._roll_back()

    def _roll_back(self):
        try:
            self._call('db.rollback', {'tx': self._tx})
        except CallError:
            # The error that led here is the one to tell.
            pass

    async def __aenter__(self):
        return self.__enter__()

    async def __aexit__(self, *reason):
        return self.__exit__(*reason)


class Flags:
    """
    `get(key, context=None, default=None)`: the default where the flag is not there, is off, cannot be known, or has a
    value of another type. The claims of the user who calls are part of the context. It is not awaited.
    """

    def __init__(self, call, user):
        self._call = call
        self._user = user

    def get(self, key, context=None, default=None, environment=None):
        if context is not None and not isinstance(context, dict):
            context, default = None, context
        known = {} if self._user is None else dict({'targetingKey': self._user.get('sub')}, **self._user)
        whole = dict(known, **(context or {}))
        args = {'key': key, 'context': whole}
        if environment is not None:
            args['environment'] = environment
        found = self._call('flags.get', args)
        if found is None:
            return default
        value = found['value']
        return value if default is None or _same_kind(value, default) else default


def _same_kind(value, other):
    for kind in (bool, (int, float), str, (dict, list)):
        if isinstance(value, kind):
            return isinstance(other, kind) and (kind is bool or not isinstance(other, bool))
    return False


class StorageError(CallError):
    """The platform refused: `code` says why."""


StorageError.__module__ = 'builtins'

_PIECE_BYTES = 192 * 1024


class Storage:
    """The files of the project. Without a bucket the one is meant that the project began with."""

    StorageError = StorageError

    def __init__(self, call):
        self._call = call
        self._last = 0

    def _next(self):
        self._last += 1
        return self._last

    def upload(self, path, data, bucket=None, content_type=None, cache_control=None, upsert=False):
        """`data` is text, bytes, or an iterable of bytes, such as a file or a download."""
        number = self._next()
        if isinstance(data, str):
            data, content_type = data.encode(), content_type or 'text/plain;charset=UTF-8'
        self._call('storage.begin', {
            'id': number, 'bucket': bucket, 'name': path, 'contentType': content_type,
            'cacheControl': cache_control, 'upsert': upsert,
        })
        try:
            for chunk in [data] if isinstance(data, (bytes, bytearray, memoryview)) else data:
                for at in range(0, len(chunk), _PIECE_BYTES):
                    piece = base64.b64encode(chunk[at:at + _PIECE_BYTES]).decode()
                    self._call('storage.write', {'id': number, 'chunk': piece})
            return _answered(self._call('storage.end', {'id': number}))
        except BaseException:
            self._cancel(number)
            raise

    def _cancel(self, number):
        try:
            self._call('storage.cancel', {'id': number})
        except CallError:
            pass

    def download(self, path, bucket=None):
        number = self._next()
        return Download(self._call, number, self._call('storage.open', {'id': number, 'bucket': bucket, 'name': path}))

    def list(self, prefix='', bucket=None, limit=None, offset=None, search=None):
        return _answered(self._call('storage.list', {
            'bucket': bucket, 'prefix': prefix, 'limit': limit, 'offset': offset, 'search': search,
        }))

    def remove(self, paths, bucket=None):
        names = [paths] if isinstance(paths, str) else list(paths)
        return _answered(self._call('storage.remove', {'bucket': bucket, 'names': names}))

    def signed_url(self, path, expires_in=3600, bucket=None):
        return self._call('storage.signedUrl', {'bucket': bucket, 'name': path, 'expiresIn': expires_in})

    signedUrl = signed_url


class Download(_Awaitable):
    """A file whose bytes come as they are read: `for chunk in download`, or all of them by `read()`."""

    def __init__(self, call, number, facts):
        self._call = call
        self._number = number
        self.size = facts['size']
        self.content_type = facts['contentType']
        self.etag = facts['etag']

    def __iter__(self):
        while True:
            answer = self._call('storage.read', {'id': self._number})
            if answer.get('done'):
                return
            yield base64.b64decode(answer['chunk'])

    def read(self):
        return b''.join(self)

    def text(self):
        return self.read().decode()

    def close(self):
        self._call('storage.cancel', {'id': self._number})


class Env(dict):
    """`env.NAME` and `env['NAME']`."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError('There is no environment variable %s.' % name) from None


_LEVELS = ('debug', 'info', 'warn', 'error')
# In characters of JSON.
_MAX_FIELDS = 8 * 1024
_MAX_LINE = 16 * 1024
# The host keeps 256 KiB of log a run: nobody reads more, so no more is sent.
_MAX_LOGGED = 288 * 1024


class Log:
    """`sdk.log(level, message, fields)`: a line of the log with an object beside its text."""

    def __init__(self, link):
        self._link = link
        self._room = _MAX_LOGGED

    def __call__(self, level, message, fields=None):
        if level not in _LEVELS:
            raise ValueError('sdk.log: the level is one of %s' % ', '.join(_LEVELS))
        if os.getpid() != self._link.owner:
            raise RuntimeError('The sdk works in the process of the handler only.')
        if self._room < 0:
            return
        text, why = _fields_text(fields)
        line = str(message)
        if len(line) > _MAX_LINE:
            line = '%s… [%d characters cut]' % (line[:_MAX_LINE], len(line) - _MAX_LINE)
        self._room -= len(line) + len(text or '') + 32
        self._link.log(level, line + why, text)


def _fields_text(fields):
    """A line is written in any case: fields that cannot be sent are left out, and the line says so."""
    if fields is None:
        return None, ''
    try:
        text = values.result_text(fields)
    except (TypeError, ValueError, RecursionError):
        return None, ' [fields left out: JSON cannot hold them]'
    if not text.startswith('{'):
        return None, ' [fields left out: not an object]'
    if len(text) > _MAX_FIELDS:
        return None, ' [fields left out: %d characters]' % len(text)
    return text, ''


class AsCaller:
    """The project's database with the role and the claims of whoever calls."""

    def __init__(self, call):
        self.db = Database(lambda op, args: call('asCaller.' + op, args))


class Sdk:
    Response = web.Response

    def __init__(self, link, message):
        def call(op, args):
            ok, text = link.call(op, values.arguments_text(args))
            if ok:
                return json.loads(text)
            raise _fault(text)

        self._call = call
        self.log = Log(link)
        self.db = Database(call)
        self.storage = Storage(call)
        self.background = background.Background()
        self.wait_until = self.waitUntil = self.background.add
        self.as_caller = self.asCaller = AsCaller(call)
        self.jobs = Jobs(call, self.db.open_transactions)
        self.events = Events(call)
        self.step = steps.Steps(call, link)
        # 1 for the first run of a job.
        self.attempt = message.get('attempt', 1)
        self.env = Env(message['env'])
        self.project_id = self.projectId = message['projectId']
        # {kind, key_id, user}
        self.caller = json.loads(message.get('caller') or 'null')
        # The claims of the user's token.
        self.user = (self.caller or {}).get('user')
        self.flags = Flags(call, self.user)
        given = json.loads(message.get('request') or 'null')
        # None where no HTTP request led here.
        self.request = given and web.Request(given, message['payload'])
