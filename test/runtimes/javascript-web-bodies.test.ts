import test from 'ava';
import { openRuntime } from './harness.ts';
import { sameAsNode } from './same-as-node.ts';

const runtime = await openRuntime();
test.after.always(() => runtime.close());

const attempt = `const attempt = async (f) => { try { return await f() } catch (error) { return error.name } };`;

sameAsNode(runtime, {
  'headers of every kind of init': `
    return [{ B: ' 1 ', a: 2 }, [['x', '1'], ['X', '2']], new Headers({ k: 'v' }), new Map([['m', 'n']]), undefined].map((init) => [...new Headers(init)])`,
  'headers are read and changed without regard to case': `
    const h = new Headers({ 'Content-Type': 'a' }); h.append('content-type', 'b'); h.set('X-Two', '2'); h.append('set-cookie', 'a=1'); h.append('Set-Cookie', 'b=2'); h.delete('x-TWO');
    const seen = []; h.forEach((value, name) => seen.push([name, value]));
    return [h.get('CONTENT-TYPE'), h.has('x-two'), h.get('none'), h.getSetCookie(), [...h.keys()], [...h.values()], seen, Object.prototype.toString.call(h)]`,
  'what is no header is refused': `${attempt}
    return Promise.all([{ 'a b': '1' }, { a: 'x\\ny' }, { a: '€' }, { '': '' }, [['a']], [['a', 'b', 'c']], null, 'text', 5].map((init) => attempt(() => [...new Headers(init)])))`,
  'a blob joins its parts and is cut': `
    const blob = new Blob(['aé', new Uint8Array([66, 67]), new Blob(['d']), new DataView(new ArrayBuffer(1)), 7], { type: 'Text/Plain' });
    return [blob.size, blob.type, await blob.text(), await blob.slice(-3, -1, 'x/y').text(), blob.slice(0, 2, 'X/Y').type, (await blob.arrayBuffer()).byteLength, [...await blob.slice(0, 3).bytes()], new Blob([], { type: 'é' }).type]`,
  'a blob takes parts in a sequence only': `return new Blob('text')`,
  'a file has a name and a time': `
    const file = new File(['x'], 'a/b.txt', { type: 'text/plain', lastModified: 5 }); return [file.name, file.lastModified, file.size, file instanceof Blob, await new Response(file.stream()).text()]`,
  'form data is read and changed': `
    const f = new FormData(); f.append('a', 1); f.append('a', 'two'); f.append('b', new Blob(['x'], { type: 't/y' }), 'n.txt'); f.append('c', new Blob(['y'])); f.set('a', 'only'); f.append('d', 'gone'); f.delete('d');
    return [[...f].map(([name, value]) => [name, typeof value === 'string' ? value : [value.name, value.type, value.size]]), f.getAll('a'), f.has('d'), f.get('none')]`,
  'a form goes through a body and back, with names that need care': `
    const f = new FormData(); f.append('quote"name\\r\\n', 'line\\nend'); f.append('file', new File([Uint8Array.of(0, 13, 10, 45, 45, 255)], 'ü"x.bin', { type: 'application/x' })); f.append('empty', '');
    const response = new Response(f); const type = response.headers.get('content-type').split(';')[0];
    const back = await response.formData();
    const file = back.get('file');
    return [type, [...back.keys()], back.get('quote"name\\n') ?? back.get('quote"name\\r\\n'), back.get('empty'), file.name, file.type, [...await file.bytes()]]`,
  'a form of url-encoded text': `
    return [...await new Response(new URLSearchParams('a=1&b=%C3%A9+x')).formData()]`,
  'what is no form is refused': `${attempt}
    return Promise.all([['x', 'text/plain'], ['x', 'multipart/form-data'], ['--b\\r\\n', 'multipart/form-data; boundary=b'], ['', 'multipart/form-data; boundary=b']].map(([body, type]) => attempt(() => new Response(body, { headers: { 'content-type': type } }).formData())))`,
  'a response carries every kind of body': `
    const kinds = ['té', new Uint8Array([104, 105]), new Uint8Array([104, 105]).buffer, new Blob(['b'], { type: 'x/y' }), new URLSearchParams({ a: 'b c' }), ReadableStream.from([new TextEncoder().encode('s')]), null, undefined, 5, { toString: () => 'o' }];
    return Promise.all(kinds.map(async (kind) => { const r = new Response(kind); return [r.headers.get('content-type'), r.body === null, await r.text(), r.bodyUsed] }))`,
  'a response says what it is': `
    const r = new Response('x', { status: 404, statusText: 'Not', headers: { a: 'b' } });
    return [r.status, r.ok, r.statusText, r.type, r.url, r.redirected, r.headers.get('a'), new Response().ok, Object.prototype.toString.call(r)]`,
  'a response cannot be just anything': `${attempt}
    return Promise.all([[null, { status: 199 }], [null, { status: 600 }], ['x', { status: 204 }], [null, { status: 204 }], [null, { statusText: '\\n' }]].map(([body, init]) => attempt(() => new Response(body, init).status)))`,
  'responses ready made': `${attempt}
    const json = Response.json({ a: 1 }, { status: 201, headers: { x: 'y' } }); const redirect = Response.redirect('http://a/b', 303); const error = Response.error();
    return [json.status, json.headers.get('content-type'), json.headers.get('x'), await json.json(), redirect.status, redirect.headers.get('location'), error.type, error.status,
      await attempt(() => redirect.headers.set('a', 'b')), await attempt(() => Response.redirect('http://a', 200)), await attempt(() => Response.json(undefined)), await attempt(() => Response.redirect('nowhere'))]`,
  'a body is read once': `${attempt}
    const r = new Response('x'); const before = r.bodyUsed; await r.text(); const e = new Response(null); await e.text();
    return [before, r.bodyUsed, await attempt(() => r.json()), await attempt(() => r.clone()), await attempt(() => e.text()), e.bodyUsed]`,
  'a body in someone’s hands is read by nobody else': `${attempt}
    const r = new Response('abc'); const reader = r.body.getReader(); const { value } = await reader.read();
    return [[...value], r.bodyUsed, await attempt(() => r.text())]`,
  'a clone carries the same again': `
    const r = new Response(ReadableStream.from([new TextEncoder().encode('ab'), new TextEncoder().encode('c')]), { status: 202, headers: { a: '1' } }); const c = r.clone(); c.headers.set('a', '2');
    return [await r.text(), await c.text(), c.status, r.headers.get('a')]`,
  'a body of a stream that carries no bytes is refused': `return new Response(ReadableStream.from([5])).text()`,
  'a byte order mark is not part of a text, and JSON that is none says so': `${attempt}
    return [await new Response(Uint8Array.of(0xef, 0xbb, 0xbf, 0x61)).text(), await attempt(() => new Response('{').json()), [...await new Response('é').bytes()], await new Response('[1]').json()]`,
  'a blob of a body has its type': `const b = await new Response('x', { headers: { 'content-type': 'A/B' } }).blob(); return [b.type, b.size]`,
  'a request says what it asks': `
    const r = new Request('http://a/b c?d', { method: 'post', body: 'x', headers: { A: 'b' }, redirect: 'manual' });
    return [r.url, r.method, r.headers.get('a'), r.headers.get('content-type'), r.redirect, r.signal.aborted, r.bodyUsed, await r.text(), r.bodyUsed, r.credentials, r.mode, r.cache, r.duplex, r.keepalive]`,
  'a request of a request': `
    const abort = new AbortController();
    const first = new Request('http://a/', { method: 'PUT', body: 'x', headers: { a: '1' }, signal: abort.signal }); const second = new Request(first, { headers: { b: '2' } });
    const third = new Request(new Request('http://a/', { method: 'POST', body: 'y' }).clone()); abort.abort('gone');
    return [second.method, [...second.headers.keys()].includes('b'), second.headers.has('a'), await second.text(), await third.text(), second.signal.reason]`,
  'methods are written as they are known': `${attempt}
    return Promise.all(['get', 'PATCH', 'Delete', 'x-own', 'a b', 'TRACE', 'connect'].map((method) => attempt(() => new Request('http://a', { method }).method)))`,
  'a request cannot be just anything': `${attempt}
    return Promise.all([() => new Request('/relative'), () => new Request('http://u:p@a/'), () => new Request('http://a', { body: 'x' }), () => new Request('http://a', { method: 'HEAD', body: 'x' }), () => new Request('http://a', { signal: {} }), () => new Request('http://a', { redirect: 'never' }), () => new Request()].map((f) => attempt(() => f().url)))`,
});
