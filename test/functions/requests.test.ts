import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import test from 'ava';
import { type ProjectScene, useJobsApi } from '#test/jobs/scene.ts';

const { scene, platform } = useJobsApi(test);

const tells = `exports.handler = async (payload, { request, caller }) => request && ({
  payload,
  method: request.method,
  path: request.path,
  query: [...request.query],
  type: request.headers.get('content-type'),
  names: [...request.headers.keys()],
  bytes: Buffer.from(request.rawBody).toString('base64'),
  kind: caller.kind,
});`;

const tellsInPython = `import base64
def handler(payload, sdk):
    r = sdk.request
    return r and {
        'payload': payload, 'method': r.method, 'path': r.path, 'query': r.query, 'type': r.headers.get('Content-Type'),
        'names': list(r.headers), 'bytes': base64.b64encode(r.raw_body).decode(), 'kind': sdk.caller['kind'],
    }
`;

type Languages = 'javascript' | 'python';

const sceneIn = async (language: Languages): Promise<ProjectScene> => {
  const one = await scene(tells);
  if (language === 'javascript') return one;
  const fn = await platform().client.deploy(one.user, one.project, tellsInPython, { language });
  return { ...one, fn };
};

const base64 = (text: string | Uint8Array): string => Buffer.from(text).toString('base64');

const readsNothing = {
  javascript: `exports.handler = () => new Response('done')`,
  python: `def handler(payload, sdk):\n    return sdk.Response('done')`,
} as const;

for (const language of ['javascript', 'python'] as const) {
  test(`a function in ${language} that never reads its body answers, and its connection serves the next call`, async (t) => {
    const one = await scene(tells);
    const fn = await platform().client.deploy(one.user, one.project, readsNothing[language], { language });
    const url = `${platform().base}/api/functions/${fn.slug}`;
    const sockets = new Set<unknown>();
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    t.teardown(() => agent.destroy());
    for (const bytes of [5_000_000, 0, 5_000_000]) {
      const sent = request(url, { agent, method: 'POST', headers: { apikey: one.project.key } });
      sent.once('socket', (socket) => sockets.add(socket));
      // Without a length: the body comes in chunks.
      for (let at = 0; at < bytes; at += 100_000) sent.write(Buffer.alloc(100_000, 1));
      sent.end();
      const [answer] = (await once(sent, 'response')) as [IncomingMessage];
      t.is(answer.statusCode, 200);
      t.is(await text(answer), 'done');
    }
    t.is(sockets.size, 1);
  });
  test(`a function in ${language} sees each method, the path below its slug, the query and the exact bytes`, async (t) => {
    const one = await sceneIn(language);
    const { ref, key } = one.project;
    const at = (root: string) => `${platform().base}${root}/${one.fn.slug}`;
    for (const root of ['/api/functions', `/p/${ref}/functions/v1`]) {
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
        const body = ' {"a": [1, "ü", 10000000000000001]}\n';
        const headers = { apikey: key, 'content-type': 'application/json; charset=utf-8' };
        const answer = await fetch(`${at(root)}/users/a%2Fb/?x=1&x=%20`, { method, headers, body });
        t.is(answer.status, 200, await answer.clone().text());
        const seen = (await answer.json()) as Record<string, unknown>;
        t.like(seen, { method, path: '/users/a%2Fb/', bytes: base64(body), kind: 'secret' });
        t.like(seen['payload'], { a: [1, 'ü', 10000000000000000] });
        t.deepEqual(
          seen['query'],
          language === 'javascript'
            ? [
                ['x', '1'],
                ['x', ' '],
              ]
            : { x: ['1', ' '] },
        );
        t.false((seen['names'] as string[]).includes('apikey'));
      }
      const got = await fetch(at(root), { headers: { 'x-api-key': key } });
      t.like(await got.json(), { method: 'GET', path: '/', payload: null, bytes: '', type: null });
    }
  });

  test(`a body that is no JSON reaches a function in ${language} as it is, of a form its fields are the payload`, async (t) => {
    const one = await sceneIn(language);
    const send = async (type: string | null, body: string | Uint8Array<ArrayBuffer> | FormData) => {
      const headers = { apikey: one.project.key, ...(type !== null && { 'content-type': type }) };
      const answer = await fetch(`${platform().base}/api/functions/${one.fn.slug}`, { method: 'POST', headers, body });
      t.is(answer.status, 200, await answer.clone().text());
      return (await answer.json()) as { payload: unknown; bytes: string };
    };
    const every = Uint8Array.from({ length: 256 }, (_, byte) => byte);
    t.like(await send('application/octet-stream', every), { payload: null, bytes: base64(every) });
    t.like(await send('text/xml; charset=utf-8', '<a/>'), { payload: null, bytes: base64('<a/>') });
    t.like(await send('text/plain', 'plain ü'), { payload: 'plain ü', bytes: base64('plain ü') });
    const form = 'a=1&b=x%20y&a=%C3%BC';
    t.deepEqual((await send('application/x-www-form-urlencoded', form)).payload, { a: ['1', 'ü'], b: 'x y' });
    const parts = new FormData();
    parts.set('title', 'a "title"');
    parts.set('file', new File([every], 'every.bin'));
    t.deepEqual((await send(null, parts)).payload, { title: 'a "title"' });
    t.is((await send('multipart/form-data; boundary=x', 'no form')).payload, null);
  });
}

test('a schedule’s run and a member’s have no request', async (t) => {
  const one = await scene(tells);
  const { body } = await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 1 } });
  t.is(body.result, null);
});

test('a run that is run again has the request of the first, and a member as its caller', async (t) => {
  const one = await scene(tells);
  const answer = await fetch(`${platform().base}/api/functions/${one.fn.slug}/again?x=1`, {
    method: 'PUT',
    headers: { apikey: one.project.key, 'content-type': 'application/octet-stream' },
    body: 'raw',
  });
  const id = answer.headers.get('x-invocation-id');
  const { status, body } = await one.ask('POST', `/functions/${one.fn.id}/invocations/${id}/rerun`);
  t.is(status, 200);
  t.like(body.result, { method: 'PUT', path: '/again', bytes: base64('raw'), kind: 'dashboard' });
});
