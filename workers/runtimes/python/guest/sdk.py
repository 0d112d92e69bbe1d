"""The object that a handler gets beside its payload (interface, "Functions")."""

import builtins
import json
import sys

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

    def transaction(self, work=None):
        """
        `with db.transaction() as tx:` keeps what the block does whole, or drops it when the block raises.
        `db.transaction(work)` does the same around `work(tx)`, which may be an `async def`, and answers its result.
        """
        transaction = Transaction(self._call)
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
    def __init__(self, call):
        self._call = call
        self._tx = None
        self._handed_over = False

    def hand_over(self):
        """The end of a `with` block is not the end of the transaction: a coroutine takes it over."""
        self._handed_over = True

    def __enter__(self):
        if self._tx is None:
            self._tx = self._call('db.begin', {})
        return _Operations(self._call, self._tx)

    def __exit__(self, kind, error, trace):
        if self._handed_over:
            self._handed_over = False
        elif kind is None:
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


class Env(dict):
    """`env.NAME` and `env['NAME']`."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError('There is no environment variable %s.' % name) from None


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
        self.db = Database(call)
        self.as_caller = self.asCaller = AsCaller(call)
        self.env = Env(message['env'])
        self.project_id = self.projectId = message['projectId']
        # {kind, key_id, user}
        self.caller = json.loads(message.get('caller') or 'null')
        # The claims of the user's token.
        self.user = (self.caller or {}).get('user')
        given = json.loads(message.get('request') or 'null')
        # None where no HTTP request led here.
        self.request = given and web.Request(given, message['payload'])
