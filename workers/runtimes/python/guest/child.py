"""The process of one run: from the fork to its last frame."""

import builtins
import errno
import gc
import json
import linecache
import marshal
import os
import socket
import sys
import threading
import types

import allocator
import fence
import link as links
import logs
import pack
import sdk
import values
import web

_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))
_STACK_BYTES = 1024 * 1024


def run(host, code, workspace, fds, environment):
    """
    Never returns. `host` holds the frame that asks for the run; `code` is (source, compiled or None); `fds` are the channel, standard output and standard error.
    """
    try:
        message = host.parse()
        link = _settle(message, workspace, fds, environment)
    except BaseException as error:
        os.write(2, repr(error).encode())
        os._exit(70)
    try:
        _answer(link, *_outcome(message, code, link))
    finally:
        os._exit(0)


def _settle(message, workspace, fds, environment):
    """Leaves everything of the zygote's behind."""
    for target, fd in enumerate((os.open(os.devnull, os.O_RDONLY), fds[1], fds[2], fds[0])):
        os.dup2(fd, target, inheritable=target < 3)
    os.closerange(4, os.sysconf('SC_OPEN_MAX'))
    link = links.Link(socket.socket(fileno=3))
    fence.open_child()
    allocator.overwriting.end()
    os.setpgid(0, 0)
    os.chdir(workspace)
    os.environ.clear()
    os.environ.update(environment)
    os.environ.update(message['env'])
    _hide_own_modules()
    logs.install(link)
    threading.stack_size(_STACK_BYTES)
    fence.limit(message['memoryMib'], message['cpuMs'])
    gc.enable()
    return link


def _hide_own_modules():
    """`import values` of user code must not find ours."""
    for name, module in list(sys.modules.items()):
        if (getattr(module, '__file__', None) or '').startswith(_OWN_FOLDER):
            del sys.modules[name]


def _outcome(message, code, link):
    """(status, result text, error, form of a response)"""
    try:
        compiled = _compiled(code, link)
        handler = _handler(compiled, code[0], message['entryPoint'])
        kit = sdk.Sdk(link, message)
        payload = json.loads(message['payload']) if kit.request is None else kit.request.payload()
        text, response = _answer_of(handler, payload, kit)
        if len(text.encode()) > values.MAX_RESULT_BYTES:
            return 'result_too_large', None, None, None
        return 'success', text, None, response
    except BaseException as error:
        return _failure(error)


def _answer_of(handler, payload, kit):
    """(result text, form of a response), when nothing goes on any more"""
    try:
        result = handler(payload, kit)
        if hasattr(result, '__await__') or (isinstance(result, web.Response) and hasattr(result.body, '__aiter__')):
            return _in_loop(result, kit)
        kit.step.finish()
        answer = _text_of(result, kit)
    except Exception:
        kit.background.run()
        raise
    if kit.background:
        _answer_early(answer, kit)
        _raise_any(kit.background.run())
    return answer


def _answer_early(answer, kit):
    """A caller that waits gets the answer now; the run is over, and its status known, when the rest is done."""
    text, form = answer
    if form != 'sent' and len(text.encode()) <= values.MAX_RESULT_BYTES:
        kit._call('response.early', {'text': text, 'form': form})


def _raise_any(error):
    if error is not None:
        raise error


def _failure(error):
    # Maps and forks that get no memory say so by its number.
    if isinstance(error, MemoryError) or getattr(error, 'errno', None) == errno.ENOMEM:
        return 'memory_limit', None, None, None
    try:
        return 'error', None, values.error_of(error, _OWN_FOLDER), None
    except MemoryError:
        return 'memory_limit', None, None, None


def _text_of(result, kit):
    if isinstance(result, web.Response):
        return web.answer(result, kit._call)
    return values.result_text(result), None


def _compiled(code, link):
    """The zygote never compiles: a text may well end the process that tries."""
    source, compiled = code
    if isinstance(source, pack.Pack):
        if compiled is None:
            compiled = source.compile()
            link.send(b'K', compiled)
        return marshal.loads(compiled)
    lines = source.splitlines(True)
    linecache.cache[values.FILE_NAME] = (len(source), None, lines, values.FILE_NAME)
    if compiled is not None:
        return marshal.loads(compiled)
    fresh = compile(source, values.FILE_NAME, 'exec', dont_inherit=True)
    # Sent before any of it runs, so that nothing else can be sent in its place.
    link.send(b'K', marshal.dumps(fresh))
    return fresh


def _handler(compiled, source, entry_point):
    if isinstance(source, pack.Pack):
        module = source.load(compiled)
    else:
        module = types.ModuleType('function')
        module.__file__ = values.FILE_NAME
        module.__builtins__ = builtins
        sys.modules['function'] = sys.modules['__main__'] = module
        exec(compiled, module.__dict__)
    handler = module.__dict__.get(entry_point)
    if not callable(handler):
        raise NameError("There is no function named '%s' in the code." % entry_point)
    return handler


def _in_loop(result, kit):
    import asyncio

    async def main():
        value = await result if hasattr(result, '__await__') else result
        kit.step.finish()
        if isinstance(value, web.Response):
            return await web.answer_async(value, kit._call)
        return values.result_text(value), None

    async def all_of_it():
        try:
            answer = await main()
        except Exception:
            await kit.background.run_in_loop()
            raise
        if kit.background:
            _answer_early(answer, kit)
            _raise_any(await kit.background.run_in_loop())
        return answer

    return asyncio.run(all_of_it())


def _answer(link, status, result, error, response):
    if status == 'memory_limit':
        fence.relax_memory()
    else:
        logs.flush()
    link.send(b'R', json.dumps([status, result, error, response]).encode())
