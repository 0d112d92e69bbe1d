import test from 'ava';
import type { Answer } from '#test/support/client.ts';
import { useFaultyPlatform } from '#test/support/faulty-platform.ts';
import { longTestMs, patienceMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { newEmail, password } from './auth-scene.ts';

const platform = useFaultyPlatform(test);

/** A hang is a failure of its own: 2 s are promised, the bound leaves room for a machine that others keep busy. */
const soon = <T>(answer: Promise<T>): Promise<T> => {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error('no answer for a long time')), patienceMs / 4);
  return Promise.race([answer, late.promise]).finally(() => clearTimeout(timer));
};

const faults = {
  refuses: () => platform().postgres.refuse(),
  hangs: () => platform().postgres.hang(),
} as const;

for (const [fault, begin] of Object.entries(faults)) {
  test.serial(
    `while Postgres ${fault} users and clients are answered with 503, and served when it is back`,
    async (t) => {
      t.timeout(longTestMs);
      const { base, client } = platform();
      const developer = await client.signUp();
      const of = await client.createProject(developer);
      const { publishableKey: key } = of;
      const auth = (method: string, path: string, options: object = {}): Promise<Answer> =>
        client.call(method, `/p/${of.ref}/auth/v1${path}`, { key, ...options });
      const email = newEmail();
      const signedUp = await auth('POST', '/signup', { body: { email, password } });
      t.is(signedUp.status, 200, signedUp.text);
      const { access_token: token, refresh_token: refreshToken } = signedUp.body;
      const spa = await client.call('POST', `/projects/${of.id}/oauth/clients`, {
        token: developer.token,
        body: { name: 'Page', application_type: 'spa', redirect_uris: ['https://app.example.com/callback'] },
      });
      const { client_id: clientId } = spa.body as { client_id: string };
      const issuer = `${base}/oauth/${of.id}`;
      const form = (path: string, fields: Record<string, string>) =>
        fetch(issuer + path, { method: 'POST', body: new URLSearchParams({ client_id: clientId, ...fields }) });
      t.teardown(() => platform().postgres.restore());
      await begin();
      const answers = await Promise.all(
        [
          auth('POST', '/signup', { body: { email: newEmail(), password } }),
          auth('POST', '/token?grant_type=password', { body: { email, password } }),
          auth('POST', '/token?grant_type=refresh_token', { body: { refresh_token: refreshToken } }),
          auth('GET', '/user', { token }),
          auth('POST', '/recover', { body: { email } }),
        ].map(soon),
      );
      for (const { status, body, text } of answers) {
        t.is(status, 503, text);
        t.is(body.error_code, 'unexpected_failure');
        t.false(/ECONN|postgres|127\.0\.0\.1|select/i.test(text), text);
      }
      const ofClients = await Promise.all(
        [
          form('/token', { grant_type: 'authorization_code', code: 'x', code_verifier: 'x'.repeat(43) }),
          form('/device/authorize', {}),
          fetch(`${issuer}/userinfo`, { headers: { authorization: `Bearer ${token}` } }),
          fetch(`${issuer}/device`),
        ].map(soon),
      );
      for (const answer of ofClients) {
        const text = await answer.text();
        t.true(
          answer.status === 503 || new URL(answer.url).pathname.endsWith('/device'),
          `${answer.url} ${answer.status}`,
        );
        t.false(/ECONN|postgres|127\.0\.0\.1:\d+\/postgres|select /i.test(text), text);
      }
      await platform().postgres.restore();
      const refresh = () => auth('POST', '/token?grant_type=refresh_token', { body: { refresh_token: refreshToken } });
      await until(async () => (await refresh()).status === 200);
      t.is((await auth('GET', '/user', { token })).status, 200);
    },
  );
}
