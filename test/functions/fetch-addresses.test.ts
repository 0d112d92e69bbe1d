import test from 'ava';
import { closedHosts, startHitServer } from '#test/support/egress-cases.ts';
import { usePlatform } from '#test/support/platform.ts';

// As `npm start` sets it: loopback is open to the platform's own requests, never to functions.
const platform = usePlatform(test);

const code = `exports.handler = async (urls) => {
  const told = {};
  for (const url of urls) {
    try { told[url] = 'reached: ' + (await fetch(url)).status } catch (error) { told[url] = error.name + ': ' + error.message }
  }
  return told;
}`;

test('no form of a private address is reached from a function, and nothing is told of it', async (t) => {
  const { client, base } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const server = await startHitServer();
  const fn = await client.deploy(user, project, code, { timeout_ms: 60_000 });
  const { port } = server;
  const forms = [
    ...Object.values(closedHosts).map((host) => `http://${host}:${port}/`),
    'http://user@127.0.0.1:{port}/',
    'http://user:secret@example.com:{port}/',
    'http:\\\\127.0.0.1:{port}\\',
    'ftp://example.com/',
    'file:///etc/passwd',
    'gopher://127.0.0.1:{port}/_x',
    'http://',
    '127.0.0.1:{port}',
    '',
    `${base}/healthz`,
    platform().config.REDIS_URL,
    platform().config.DATABASE_URL,
  ].map((url) => url.replace('{port}', String(port)));
  const reported: Record<string, string> = {};
  for (let at = 0; at < forms.length; at += 12) {
    const { body } = await client.invoke(user, project, fn, forms.slice(at, at + 12));
    t.is(body.status, 'success', JSON.stringify(body));
    Object.assign(reported, body.result);
  }
  t.is(server.connections(), 0);
  t.is(Object.keys(reported).length, new Set(forms).size);
  for (const [url, words] of Object.entries(reported)) {
    t.regex(words, /^TypeError: /, url);
    // Nothing says whether anybody is there.
    t.notRegex(words, /connection|closed|ECONN|time/i, url);
  }
  await server.close();
});
