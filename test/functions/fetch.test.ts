import { once } from 'node:events';
import test from 'ava';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { serve } from '#test/support/serve.ts';

const platform = usePlatform(test, { settings: { PLINTH_EGRESS_ALLOW: '127.0.0.1' } });

let user: TestUser;
let project: TestProject;

test.before('a project', async () => {
  user = await platform().client.signUp();
  project = await platform().client.createProject(user);
});

const invoke = async (body: string, payload: unknown, fields: Record<string, unknown> = {}) => {
  const { client } = platform();
  const fn = await client.deploy(user, project, `exports.handler = async (url, sdk) => { ${body} }`, fields);
  return (await client.invoke(user, project, fn, payload)).body;
};

test('a function asks what the operator has opened and reads the answer', async (t) => {
  const url = await serve(t, (request, response) => {
    request.resume();
    response.writeHead(202, { 'content-type': 'application/json', 'x-a': 'b' });
    response.end(JSON.stringify({ method: request.method, agent: request.headers['user-agent'] }));
  });
  const { status, result } = await invoke(
    `const response = await fetch(url, { method: 'POST', body: 'x' });
    return { status: response.status, a: response.headers.get('x-a'), json: await response.json() };`,
    url,
  );
  t.is(status, 'success');
  t.deepEqual(result, { status: 202, a: 'b', json: { method: 'POST', agent: 'plinth-functions/1' } });
});

test('a redirect from what is open to what is not is refused', async (t) => {
  let hits = 0;
  const url = await serve(t, (_request, response) => {
    hits += 1;
    response.writeHead(307, { location: `http://127.0.0.2:${new URL(platform().base).port}/healthz` }).end();
  });
  const { result } = await invoke(
    `return await fetch(url).then(({ status }) => status, ({ message }) => message)`,
    url,
  );
  t.is(result, 'fetch failed: the address redirects to one that may not be reached from here.');
  t.is(hits, 1);
});

test('requests of a run end with it, however it ends', async (t) => {
  const arrived = Promise.withResolvers<void>();
  const ended: Promise<unknown>[] = [];
  const url = await serve(t, (request, response) => {
    if (request.url === '/after') {
      void arrived.promise.then(() => response.end());
      return;
    }
    ended.push(once(response, 'close'));
    arrived.resolve();
  });
  const left = await invoke(`fetch(url).catch(() => {}); await fetch(url + '/after'); return 'gone'`, url);
  t.is(left.result, 'gone');
  const late = await invoke('await fetch(url)', url, { timeout_ms: 3000 });
  t.is(late.status, 'timeout');
  t.is(ended.length, 2);
  await Promise.all(ended);
});

test('an answer without end is cut at 10 MB', async (t) => {
  const url = await serve(t, (_request, response) => {
    const piece = Buffer.alloc(256 * 1024, 'x');
    const write = (): void => {
      while (!response.destroyed && response.write(piece));
    };
    response.on('drain', write);
    write();
  });
  const { status, result } = await invoke(
    `const response = await fetch(url);
    return await response.text().then((text) => text.length, ({ name, message }) => name + ': ' + message);`,
    url,
    { timeout_ms: 60_000 },
  );
  t.is(status, 'success');
  t.is(result, 'TypeError: fetch failed: the answer is larger than 10 MB.');
});
