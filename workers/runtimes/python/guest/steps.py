"""Durable steps (`sdk.step`). The code of a run runs from the top each time that it is continued: steps with a result
answer from the record."""

import builtins
import datetime
import json
import os
import sys

import logs
import values

_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))
# Without a step for so long, a coroutine that waits is all that is left.
_QUIET_SECONDS = 0.02
# Code that has something else to await may still request what is recorded.
_CHANGED_SECONDS = 1


class _Pending(BaseException):
    """What a function within `all` waits for is not over."""


class Steps:
    """
    `run(name, work, *args)`, `sleep(ms)`, `sleep_until(time)`, `wait_for_event(name, filter, timeout)`, `all(list)`. In
    a coroutine they answer what has to be awaited. `all` takes functions, which wait at the same time.
    """

    def __init__(self, call, link):
        self._call = call
        self._link = link
        self._record = None
        self._unrequested = set()
        self._numbers = {}
        self._used = set()
        self._collecting = False
        self._loop = None

    def run(self, name, work, *args):
        if not callable(work):
            raise TypeError('step.run needs a name and a function')
        return self._step(self._name_for(name), 'run', lambda own: _Work(own, work, args))

    def sleep(self, ms):
        return self._wait('sleep', 'sleep', ms=ms)

    def sleep_until(self, time):
        return self._wait('sleep', 'sleep', until=_milliseconds(time))

    def wait_for_event(self, name, filter=None, timeout=None):
        given = {'event': name, 'filter': filter, 'ms': timeout}
        return self._wait(name, 'event', **{key: value for key, value in given.items() if value is not None})

    sleepUntil = sleep_until
    waitForEvent = wait_for_event

    def all(self, works):
        if _in_loop():
            import asyncio

            return asyncio.gather(*(work() if callable(work) else work for work in works))
        results, is_pending, was_collecting = [], False, self._collecting
        self._collecting = True
        try:
            for work in works:
                try:
                    results.append(work() if callable(work) else work)
                except _Pending:
                    is_pending = True
        finally:
            self._collecting = was_collecting
        return self._pause() if is_pending else results

    def finish(self):
        """The handler has returned: every recorded step was requested, or the code is not what it was."""
        self._require_unchanged()

    def _wait(self, name, kind, **given):
        return self._step(self._name_for(name), kind, lambda own: _Wait(own, kind, given))

    def _step(self, name, kind, of):
        if _in_loop():
            self._loop = self._loop or _Loop(self)
            return self._loop.step(name, kind, of(name))
        known = self._known(name, kind)
        if known is not None:
            return known[0] if known[1] else self._pause()
        self._require_unchanged()
        done = of(name).perform(self._call)
        return done[0] if done is not None else self._pause()

    def _known(self, name, kind):
        """(result, True) of a step that has one, (None, False) for one that waits, None for one that is to start."""
        if self._record is None:
            self._record = {one['name']: one for one in self._call('step.begin', {})['steps']}
            self._unrequested = set(self._record)
        self._unrequested.discard(name)
        known = self._record.get(name)
        if known is None:
            return None
        if known['kind'] != kind:
            self._call('step.changed', {'name': name})
        if known['status'] == 'succeeded':
            return known['result'], True
        if known['status'] == 'failed':
            raise _error_of(known['error'])
        return None if known['due'] else (None, False)

    def _require_unchanged(self):
        if self._unrequested:
            self._call('step.changed', {'name': min(self._unrequested)})

    def _pause(self):
        if self._collecting:
            raise _Pending()
        self.suspend()

    def suspend(self):
        """Does not return: the run goes on later, from the top. Nothing of the user's is unwound."""
        self._require_unchanged()
        self._call('step.suspend', {})
        logs.flush()
        self._link.send(b'R', json.dumps(['success', 'null', None, None]).encode())
        os._exit(0)

    def _name_for(self, name):
        """The first use of a name keeps it; the others are numbered."""
        if not isinstance(name, str) or not name:
            raise TypeError('a step needs a name')
        number = self._numbers.get(name, 0) + 1
        while _numbered(name, number) in self._used:
            number += 1
        self._numbers[name] = number
        self._used.add(_numbered(name, number))
        return _numbered(name, number)


def _numbered(name, number):
    return name if number == 1 else '%s#%d' % (name, number)


class _Work:
    """A step that does something."""

    def __init__(self, name, work, args):
        self._name = name
        self._work = work
        self._args = args

    def perform(self, call):
        """(result,), or None when it is to be tried again later."""
        call('step.start', {'name': self._name})
        try:
            result = self._work(*self._args)
            if hasattr(result, '__await__'):
                import asyncio

                result = asyncio.run(_value_of(result))
            text = values.result_text(result)
        except Exception as error:
            return self._fail(call, error)
        return self._end(call, text)

    async def perform_in_loop(self, call):
        call('step.start', {'name': self._name})
        try:
            result = self._work(*self._args)
            text = values.result_text(await result if hasattr(result, '__await__') else result)
        except Exception as error:
            return self._fail(call, error)
        return self._end(call, text)

    def _end(self, call, text):
        call('step.end', {'name': self._name, 'result': text})
        return (json.loads(text),)

    def _fail(self, call, error):
        shown = values.error_of(error, _OWN_FOLDER)
        if not call('step.end', {'name': self._name, 'error': shown})['retry']:
            raise error
        return None


class _Wait:
    """A step that waits for a time or an event."""

    def __init__(self, name, kind, given):
        self._args = dict(given, name=name, kind=kind)

    def perform(self, call):
        call('step.wait', self._args)

    async def perform_in_loop(self, call):
        call('step.wait', self._args)


class _Loop:
    """Steps in coroutines, several at a time."""

    def __init__(self, steps):
        import asyncio

        self._asyncio = asyncio
        self._steps = steps
        self._running = 0
        self._waiting = []
        self._held = []
        self._timer = None

    def step(self, name, kind, step):
        return self._asyncio.ensure_future(self._value_of(name, kind, step))

    async def _value_of(self, name, kind, step):
        known = self._steps._known(name, kind)
        self._release()
        if known is None:
            await self._until_requested()
            known = await self._perform(step)
        elif known[1]:
            self._check_later()
            return known[0]
        else:
            known = None
        return known[0] if known is not None else await self._future(self._waiting)

    async def _perform(self, step):
        self._running += 1
        try:
            return await step.perform_in_loop(self._steps._call)
        finally:
            self._running -= 1
            self._check_later()

    async def _until_requested(self):
        if self._steps._unrequested:
            await self._future(self._held)

    def _release(self):
        if not self._steps._unrequested:
            held, self._held = self._held, []
            for future in held:
                if not future.done():
                    future.set_result(None)

    def _future(self, of):
        future = self._asyncio.get_running_loop().create_future()
        of.append(future)
        self._check_later()
        return future

    def _check_later(self):
        if self._timer is not None:
            self._timer.cancel()
        delay = _CHANGED_SECONDS if self._steps._unrequested else _QUIET_SECONDS
        self._timer = self._asyncio.get_running_loop().call_later(delay, self._check)

    def _check(self):
        if self._running > 0 or not (self._waiting or self._held):
            return
        try:
            self._steps.suspend()
        except Exception as error:
            futures, self._waiting, self._held = self._waiting + self._held, [], []
            for future in futures:
                if not future.done():
                    future.set_exception(error)


def _in_loop():
    events = sys.modules.get('asyncio.events')
    return events is not None and events._get_running_loop() is not None


async def _value_of(awaitable):
    return await awaitable


def _milliseconds(time):
    if isinstance(time, str):
        time = datetime.datetime.fromisoformat(time)
    if isinstance(time, datetime.datetime):
        return time.timestamp() * 1000
    return time


def _error_of(recorded):
    """An error as it was raised first, as far as its class is one of Python's own."""
    name, message = recorded['name'], recorded['message']
    known = getattr(builtins, name, None)
    if isinstance(known, type) and issubclass(known, Exception):
        try:
            return known(message)
        except TypeError:
            pass
    return type(name, (Exception,), {'__module__': 'builtins'})(message)
