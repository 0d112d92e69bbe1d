import { request } from 'node:http';
import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { settings: { PUBLIC_DOMAIN: 'plinth.test:8080' } });

/** `fetch` does not let a caller choose the Host header. */
const callHost = (host: string, path: string, key: string): Promise<{ status: number; text: string }> =>
  new Promise((resolve, reject) => {
    const headers = { host, apikey: key, 'content-type': 'application/json' };
    const { hostname, port } = new URL(platform().base);
    const asking = request({ hostname, port, path, method: 'POST', headers }, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
    });
    asking.on('error', reject);
    asking.end('{"n":1}');
  });

test('a project is served at its host name and below /p/{ref}, to its own keys only', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const [mine, other] = await Promise.all([client.createProject(user), client.createProject(user)]);
  const fn = await client.deploy(user, mine, 'exports.handler = (payload) => payload.n + 1');
  const path = `/functions/v1/${fn.slug}`;
  const body = { n: 41 };

  const below = await client.call('POST', `/p/${mine.ref}${path}`, { key: mine.key, body });
  t.deepEqual([below.status, below.body], [200, 42]);
  t.is((await client.call('POST', `/p/${mine.ref}${path}`, { key: other.key, body })).status, 401);
  t.is((await client.call('POST', `/p/${other.ref}${path}`, { key: mine.key, body })).status, 401);

  t.deepEqual(await callHost(`${mine.ref}.plinth.test:8080`, path, mine.key), { status: 200, text: '2' });
  t.is((await callHost(`${other.ref}.plinth.test:8080`, path, mine.key)).status, 401);
  t.is((await callHost('plinth.test:8080', path, mine.key)).status, 404);
  t.is((await callHost(`${mine.ref}.elsewhere.test`, path, mine.key)).status, 404);
});
