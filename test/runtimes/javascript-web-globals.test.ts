import test from 'ava';
import { openRuntime, resultOf, run } from './harness.ts';
import { sameAsNode } from './same-as-node.ts';

const runtime = await openRuntime();
test.after.always(() => runtime.close());

sameAsNode(runtime, {
  'the globals of the web are there, under their names and not enumerable': `
    const names = ['fetch', 'Headers', 'Request', 'Response', 'FormData', 'Blob', 'File', 'URL', 'URLSearchParams', 'ReadableStream', 'WritableStream',
      'TransformStream', 'TextEncoder', 'TextDecoder', 'TextEncoderStream', 'TextDecoderStream', 'Crypto', 'CryptoKey', 'SubtleCrypto', 'structuredClone',
      'atob', 'btoa', 'setTimeout', 'queueMicrotask', 'AbortController', 'AbortSignal', 'Event', 'CustomEvent', 'EventTarget', 'DOMException', 'Buffer'];
    return names.map((name) => [typeof globalThis[name], globalThis[name].name, Object.getOwnPropertyDescriptor(globalThis, name).enumerable === true && name === 'never'])`,
  'global and navigator': `return [global === globalThis, typeof navigator.userAgent, typeof performance.now(), performance.timeOrigin > 1e12]`,
  'UTF-8 both ways, with what is none': `
    const enc = new TextEncoder(), dec = new TextDecoder();
    const into = new Uint8Array(5);
    return [[...enc.encode('aé€😀\\ud800')], dec.decode(Uint8Array.of(0xef, 0xbb, 0xbf, 0x61, 0xff, 0xc3, 0xa9, 0xe2, 0x82)), enc.encodeInto('aé€😀', into), [...into], enc.encoding, dec.encoding]`,
  'a decoder that gets its bytes in pieces, and a fatal one': `
    const dec = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
    const text = dec.decode(Uint8Array.of(0xf0, 0x9f), { stream: true }) + dec.decode(Uint8Array.of(0x98, 0x80));
    let thrown; try { dec.decode(Uint8Array.of(0xff)) } catch (error) { thrown = error.name }
    return [text, thrown, dec.fatal, dec.ignoreBOM]`,
  'other encodings by their labels': `
    const bytes = Uint8Array.of(0x80, 0xe9, 0x41, 0);
    return ['latin1', 'utf-16le', 'iso-8859-2', 'windows-1251', 'UTF8', 'nonsense'].map((label) => { try { const d = new TextDecoder(label); return [d.encoding, d.decode(bytes)] } catch (error) { return error.name } })`,
  'base64 both ways': `
    const attempt = (f) => { try { return f() } catch (error) { return [error.name, error.code, error instanceof DOMException] } };
    return [btoa('a\\u00ff'), btoa(''), atob(' YQ == '), atob('YWI'), ...['a', 'ab=', 'a===', '*', 'YQ=a'].map((text) => attempt(() => atob(text))), attempt(() => btoa('€')), btoa(null)]`,
  'structuredClone of what the language has': `
    const shared = { n: 1 }; const buffer = new ArrayBuffer(8);
    const input = { map: new Map([[shared, shared]]), set: new Set([1, 'a']), date: new Date(5), re: /x/gi, big: 5n, err: new RangeError('r', { cause: shared }), a: new Uint16Array(buffer, 2, 2), b: new DataView(buffer, 1, 3), hole: [, 1], u: undefined };
    input.self = input;
    const copy = structuredClone(input);
    const [[key, value]] = copy.map;
    return [copy !== input, copy.self === copy, key === value, key.n, [...copy.set], copy.date.getTime(), String(copy.re), String(copy.big), copy.err.name, copy.err.message, copy.err instanceof RangeError, copy.err.cause === key,
      copy.a.length, copy.a.byteOffset, copy.a.buffer === copy.b.buffer, copy.b.byteLength, 0 in copy.hole, copy.hole.length, 'u' in copy]`,
  'structuredClone empties what is transferred': `
    const buffer = new ArrayBuffer(4); const copy = structuredClone({ buffer }, { transfer: [buffer] }); return [buffer.byteLength, copy.buffer.byteLength]`,
  'structuredClone refuses functions and symbols': `
    return [() => {}, Symbol('x'), { f() {} }, new WeakMap(), Promise.resolve()].map((value) => { try { structuredClone(value) } catch (error) { return [error.name, error.code, error instanceof DOMException, error instanceof Error] } })`,
  'DOMException has names, codes and constants': `
    const error = new DOMException('m', 'AbortError'); const bare = new DOMException(); const cause = new DOMException('c', { name: 'DataError', cause: 7 });
    return [error.name, error.message, error.code, String(error), error instanceof Error, DOMException.ABORT_ERR, DOMException.INVALID_STATE_ERR, DOMException.DOMSTRING_SIZE_ERR, DOMException.URL_MISMATCH_ERR, DOMException.DATA_CLONE_ERR, error.NOT_FOUND_ERR,
      bare.name, bare.message, bare.code, cause.name, cause.cause, cause.code, error.stack.split('\\n')[0], Object.prototype.toString.call(error)]`,
  'events reach their listeners in order': `
    const target = new EventTarget(); const seen = [];
    const log = (name) => (event) => seen.push([name, event.type, event.target === target]);
    const once = log('once');
    target.addEventListener('a', log('first')); target.addEventListener('a', once, { once: true }); target.addEventListener('a', log('second'));
    target.addEventListener('a', { handleEvent(event) { seen.push(['object', this !== target]); event.preventDefault(); event.stopImmediatePropagation() } });
    target.addEventListener('a', log('never'));
    const event = new Event('a', { cancelable: true });
    const results = [target.dispatchEvent(event), target.dispatchEvent(new Event('a'))];
    target.removeEventListener('a', once);
    return [seen, results, event.defaultPrevented, event.eventPhase, event.currentTarget, event.target === target, event.bubbles, event.isTrusted]`,
  'custom events, classes of targets, and listeners with a signal': `
    class Mine extends EventTarget { ping(detail) { return this.dispatchEvent(new CustomEvent('ping', { detail })) } }
    const mine = new Mine(); const seen = []; const stop = new AbortController();
    mine.addEventListener('ping', ({ detail }) => seen.push(detail), { signal: stop.signal });
    mine.ping(1); stop.abort(); mine.ping(2); mine.addEventListener('ping', () => seen.push('late'), { signal: stop.signal }); mine.ping(3);
    return seen`,
  'only events are dispatched': `
    const names = []; try { new EventTarget().dispatchEvent({}) } catch (error) { names.push(error.name) } try { new Event() } catch (error) { names.push(error.name) }
    return names`,
  'a controller aborts its signal once': `
    const controller = new AbortController(); const { signal } = controller; const seen = [];
    signal.onabort = (event) => seen.push(['handler', event.type]); signal.addEventListener('abort', () => seen.push('listener'));
    const before = signal.aborted; controller.abort(); controller.abort('again');
    let thrown; try { signal.throwIfAborted() } catch (error) { thrown = error === signal.reason }
    return [before, signal.aborted, signal.reason.name, signal.reason.code, seen, thrown, AbortSignal.abort('why').reason]`,
  'AbortSignal.any follows the first, AbortSignal.timeout the clock': `
    const a = new AbortController(), b = new AbortController(); const any = AbortSignal.any([a.signal, b.signal]); b.abort('b'); a.abort('a');
    const timeout = AbortSignal.timeout(1); await new Promise((resolve) => AbortSignal.any([timeout, new AbortController().signal]).addEventListener('abort', resolve));
    return [any.aborted, any.reason, AbortSignal.any([AbortSignal.abort(1), AbortSignal.abort(2)]).reason, AbortSignal.any([]).aborted, timeout.reason.name, timeout.reason.code]`,
  'signals are made by controllers only': `return new AbortSignal()`,
  'Buffer in its encodings': `
    const b = Buffer.from('häß€');
    return [b.toString('hex'), b.toString('base64'), b.toString('base64url'), b.toString('latin1'), Buffer.from('6869', 'hex').toString(), Buffer.from('aGk', 'base64').toString(), Buffer.concat([b, Buffer.alloc(2, 'x')]).length,
      b.readUInt16BE(0), Buffer.byteLength('€'), Buffer.isBuffer(b), b instanceof Uint8Array, Buffer.compare(Buffer.from('a'), Buffer.from('b')), b.equals(Buffer.from('häß€')), b.subarray(0, 1).toString(), b.indexOf('€'), JSON.stringify(Buffer.from('a'))]`,
  'timers and microtasks in their order': `
    const seen = []; setTimeout(() => seen.push('timeout'), 0); queueMicrotask(() => seen.push('microtask')); Promise.resolve().then(() => seen.push('promise')); seen.push('now');
    await new Promise((resolve) => setTimeout(resolve, 20)); return seen`,
  'a stream is read piece by piece, teed and made of an iterable': `
    const read = async (stream) => { const all = []; for await (const piece of stream) all.push(piece); return all };
    const stream = new ReadableStream({ start(c) { c.enqueue('a'); c.enqueue('b'); c.close() } });
    const [one, two] = stream.tee();
    return [await read(one), await read(two), await read(ReadableStream.from([1, 2])), stream.locked]`,
  'streams are piped through transforms': `
    const upper = new TransformStream({ transform(chunk, c) { c.enqueue(chunk.toUpperCase()) } });
    const text = ReadableStream.from(['h', 'é\\ud83d', '\\ude00', '\\ud83d']).pipeThrough(upper).pipeThrough(new TextEncoderStream());
    const bytes = []; for await (const chunk of text) bytes.push([...chunk]);
    const halves = bytes.flat().map((byte) => Uint8Array.of(byte));
    let back = ''; for await (const chunk of ReadableStream.from(halves).pipeThrough(new TextDecoderStream())) back += chunk;
    return [bytes.flat(), back, new TextDecoderStream('latin1').encoding]`,
  'a writable stream holds its writer back': `
    const seen = []; const stream = new WritableStream({ write(chunk) { seen.push(chunk) }, close() { seen.push('closed') } }, new CountQueuingStrategy({ highWaterMark: 1 }));
    const writer = stream.getWriter(); const sizes = [writer.desiredSize]; void writer.write(1); sizes.push(writer.desiredSize); await writer.write(2); await writer.close();
    return [seen, sizes]`,
  'a byte stream fills the buffer of its reader': `
    const stream = new ReadableStream({ type: 'bytes', pull(c) { c.enqueue(Uint8Array.of(1, 2, 3)); c.close() } });
    const { value, done } = await stream.getReader({ mode: 'byob' }).read(new Uint8Array(2)); return [[...value], done]`,
  'a stream that fails tells its reader': `
    const stream = new ReadableStream({ pull() { throw new RangeError('no') } }); return stream.getReader().read()`,
});

// Node differs from the standard here.
test('an event is at its target for every listener, and cannot be dispatched meanwhile', async (t) => {
  const code = `exports.handler = () => {
    const target = new EventTarget(); const event = new Event('a'); const seen = [];
    for (const _ of [1, 2]) target.addEventListener('a', () => seen.push(event.eventPhase, event.currentTarget === target));
    target.addEventListener('a', () => { try { target.dispatchEvent(event) } catch (error) { seen.push(error.name) } });
    target.dispatchEvent(event);
    return seen;
  }`;
  t.deepEqual(await resultOf(t, runtime, code), [2, true, 2, true, 'InvalidStateError']);
});

test('what no run has touched is an accessor, what was touched is a plain value', async (t) => {
  const code = `exports.handler = () => {
    const kind = () => ['Blob', 'File', 'Headers'].map((name) => Object.keys(Object.getOwnPropertyDescriptor(globalThis, name)).includes('get'));
    const before = kind(); new Blob(); return [before, kind()];
  }`;
  t.deepEqual(await resultOf(t, runtime, code), [
    [true, true, true],
    [false, false, true],
  ]);
});

test('user code may put its own in the place of a global, before and after its first use', async (t) => {
  const code = `exports.handler = () => {
    globalThis.Headers = 'mine'; File = 'mine too'; new Blob(); const kept = File; Blob = 3;
    return [Headers, kept, Blob, Object.keys(globalThis)];
  }`;
  t.deepEqual(await resultOf(t, runtime, code), ['mine', 'mine too', 3, []]);
});

test('what a listener throws ends the run when the others have been told', async (t) => {
  const outcome = await run(
    runtime,
    `exports.handler = async () => {
      const target = new EventTarget();
      target.addEventListener('a', () => { throw new RangeError('in a listener') });
      target.addEventListener('a', () => console.log('told'));
      target.dispatchEvent(new Event('a'));
      await new Promise((resolve) => setTimeout(resolve, 5_000));
    }`,
  );
  t.is(outcome.status, 'error');
  t.is(outcome.error?.message, 'in a listener');
  t.deepEqual(
    outcome.logs.map(({ message }) => message),
    ['told'],
  );
});

test('a run that has broken what the globals are made of breaks its own only', async (t) => {
  const code = `exports.handler = async (evil) => {
    if (evil) { Object.defineProperty = Object.assign = () => { throw new Error('broken') }; Array.prototype.map = null; JSON.parse = () => ({}) }
    return [new URL('http://a/?b=1').searchParams.get('b'), await new Response('x').text()];
  }`;
  await run(runtime, code, { payload: 'true', functionId: 'broken' });
  t.deepEqual(await resultOf(t, runtime, code, { payload: 'false', functionId: 'broken' }), ['1', 'x']);
});

test('an address of many megabytes is refused, not parsed', async (t) => {
  const code = `exports.handler = () => [URL.canParse('http://a/' + 'x'.repeat(5_000_000)), URL.canParse('http://a/' + 'x'.repeat(1_000_000))]`;
  t.deepEqual(await resultOf(t, runtime, code), [false, true]);
});
