import { once } from 'node:events';
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { text } from 'node:stream/consumers';
import test from 'ava';
import { type ProjectScene, useJobsApi } from '#test/jobs/scene.ts';

const { scene, platform } = useJobsApi(test, { settings: { PUBLIC_DOMAIN: 'apps.example' } });

const cookies = `exports.handler = (_, { request }) => {
  const headers = new Headers({ 'content-type': 'text/html' });
  headers.append('set-cookie', 'own=1; HttpOnly');
  headers.append('set-cookie', 'wide=1; Domain=apps.example');
  headers.append('set-cookie', 'wider=1; domain = ".example"');
  headers.append('set-cookie', \`twice=1; Domain=\${new URL(request.url).hostname}; Domain=apps.example\`);
  headers.append('set-cookie', 'plinth_flow=forged');
  headers.append('set-cookie', '=plinth_flow=forged');
  headers.append('set-cookie', '__Host-plinth_session=forged; Secure; Path=/');
  headers.append('set-cookie', \`exact=1; Domain=.\${new URL(request.url).hostname.toUpperCase()}\`);
  headers.append('x-accel-redirect', '/etc/passwd');
  headers.append('x-sendfile', '/etc/passwd');
  headers.append('x-accel-buffering', 'no');
  headers.append('set-login', 'logged-out');
  headers.append('strict-transport-security', 'max-age=1');
  return new Response(request.headers.get('cookie') + ' ' + request.url, { headers });
}`;

const call = async (one: ProjectScene, isOwn: boolean) => {
  const { port } = new URL(platform().base);
  const { ref, key } = one.project;
  const path = `/functions/v1/${one.fn.slug}/x?y=1`;
  const sent = httpRequest({
    port,
    host: '127.0.0.1',
    path: isOwn ? path : `/p/${ref}${path}`,
    headers: {
      host: isOwn ? `${ref}.apps.example` : '127.0.0.1',
      apikey: key,
      cookie: 'a=1; plinth_ops=secret; __Host-plinth_session=secret; b=2',
    },
  }).end();
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  return { headers: answer.headers, body: await text(answer) };
};

test('on its own host a project has cookies, but none for others and none of the platform', async (t) => {
  const one = await scene(cookies);
  const { headers, body } = await call(one, true);
  const host = `${one.project.ref}.apps.example`;
  t.deepEqual(headers['set-cookie'], ['own=1; HttpOnly', `exact=1; Domain=.${host.toUpperCase()}`]);
  t.deepEqual(String(headers['x-plinth-dropped']).split(', ').toSorted(), [
    'set-cookie',
    'x-accel-redirect',
    'x-sendfile',
  ]);
  t.deepEqual([headers['x-accel-redirect'], headers['x-sendfile']], [undefined, undefined]);
  t.is(headers['x-accel-buffering'], 'no');
  t.is(headers['set-login'], 'logged-out');
  t.is(headers['strict-transport-security'], 'max-age=1');
  t.is(headers['content-security-policy'], undefined);
  t.regex(
    body,
    new RegExp(`^a=1; b=2 https?://${one.project.ref}\\.apps\\.example/functions/v1/${one.fn.slug}/x\\?y=1$`),
  );
});

test('on the shared host it has none, whatever domain the installation has', async (t) => {
  const { headers, body } = await call(await scene(cookies), false);
  t.is(headers['set-cookie'], undefined);
  t.regex(String(headers['x-plinth-dropped']), /set-cookie.*x-sendfile/);
  t.is(headers['set-login'], undefined);
  t.is(headers['x-sendfile'], undefined);
  t.regex(String(headers['content-security-policy']), /^sandbox /);
  t.regex(body, /^null /);
});
