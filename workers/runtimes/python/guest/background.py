"""Work that goes on after the answer (`sdk.wait_until`)."""

import sys


class Background:
    """
    Takes coroutines, futures and functions. In an event loop coroutines begin at once; else everything runs in turn,
    when the answer is on its way.
    """

    def __init__(self):
        self._works = []
        self._failed = None

    def __bool__(self):
        return bool(self._works)

    def add(self, work, *args):
        is_awaitable = hasattr(work, '__await__')
        if not is_awaitable and not callable(work) and not hasattr(work, 'result'):
            raise TypeError('wait_until takes a coroutine, a future or a function, not %s' % type(work).__name__)
        if is_awaitable and _is_in_loop():
            import asyncio

            work = asyncio.ensure_future(work)
        self._works.append((work, args))

    def run(self):
        """Returns what failed first, or None; other failures are logged. Works may add others."""
        while self._works:
            try:
                result = _begun(*self._works.pop(0))
                if hasattr(result, '__await__'):
                    import asyncio

                    asyncio.run(_value_of(result))
                elif hasattr(result, 'result'):
                    result.result()
            except Exception as error:
                self._note(error)
        return self._failed

    async def run_in_loop(self):
        import asyncio

        while self._works:
            try:
                result = _begun(*self._works.pop(0))
                if hasattr(result, '__await__'):
                    await result
                elif hasattr(result, 'result'):
                    await asyncio.wrap_future(result)
            except (Exception, asyncio.CancelledError) as error:
                self._note(error)
        return self._failed

    def _note(self, error):
        if self._failed is None:
            self._failed = error
        else:
            print('%s: %s' % (type(error).__name__, error), file=sys.stderr)


def _begun(work, args):
    is_function = callable(work) and not hasattr(work, '__await__')
    return work(*args) if is_function else work


async def _value_of(awaitable):
    return await awaitable


def _is_in_loop():
    # Whoever has not imported this has no loop.
    if 'asyncio' not in sys.modules:
        return False
    try:
        sys.modules['asyncio'].get_running_loop()
    except RuntimeError:
        return False
    return True
