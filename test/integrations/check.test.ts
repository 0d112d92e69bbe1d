import test, { type ExecutionContext } from 'ava';
import { type CheckedProvider, checkProvider } from '#domain/integrations/check.ts';
import type { ConfigOf } from '#domain/integrations/providers.ts';
import { createEgress } from '#lib/egress.ts';
import { type Respond, serveProvider } from '#test/support/provider-server.ts';

const egressFor = (t: ExecutionContext, allow = '127.0.0.0/8') => {
  const egress = createEgress({ allow, local: true });
  t.teardown(() => egress.close());
  return egress;
};

const configs = (base: string): { readonly [P in CheckedProvider]: ConfigOf<P> } => ({
  resend: { api_key: 're_the_key', from_email: 'a@b.example', base_url: base },
  stripe: { secret_key: 'sk_the_key', webhook_secret: 'whsec_1' },
  paypal: { client_id: 'id', client_secret: 'the_key', webhook_id: 'WH', environment: 'live', base_url: base },
  razorpay: { key_id: 'rzp_1', key_secret: 'the_key', webhook_secret: 's' },
});

const check = async (t: ExecutionContext, provider: CheckedProvider, respond: Respond) => {
  const server = await serveProvider(t, respond);
  const deps = { egress: egressFor(t), bases: { stripe: server.base, razorpay: server.base } };
  const checked = await checkProvider(deps, provider, configs(`${server.base}/`)[provider] as never);
  return { ...checked, requested: server.requested };
};

const basic = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`;
const questions = {
  resend: ['GET /domains', 'Bearer re_the_key'],
  stripe: ['GET /v1/balance', 'Bearer sk_the_key'],
  paypal: ['POST /v1/oauth2/token', basic('id:the_key')],
  razorpay: ['GET /v1/payments?count=1', basic('rzp_1:the_key')],
} as const;
const names = Object.keys(questions) as CheckedProvider[];

for (const name of names) {
  test(`${name} is asked once, by the key, for something that changes nothing`, async (t) => {
    const { ok, error, requested, latencyMs } = await check(t, name, () => ({ body: {} }));
    t.deepEqual({ ok, error }, { ok: true, error: null });
    t.true(latencyMs >= 0);
    t.deepEqual(
      requested.map(({ method, path, headers }) => [`${method} ${path}`, headers.authorization]),
      [[...questions[name]]],
    );
  });

  test(`${name}: what it says of a refused key is not repeated`, async (t) => {
    const { ok, error } = await check(t, name, () => ({ status: 401, body: { message: 'no such key: the_key' } }));
    t.false(ok);
    t.regex(error ?? '', /refused the key \(401\)\.$/);
    t.false(error?.includes('the_key'));
  });

  test(`${name}: a fault, a redirection and a connection that is cut are told in words`, async (t) => {
    t.regex((await check(t, name, () => ({ status: 503 }))).error ?? '', /answered 503\.$/);
    const moved = await check(t, name, () => ({ status: 302, headers: { location: 'http://127.0.0.1/' } }));
    t.regex(moved.error ?? '', /answered 302\.$/);
    t.is(moved.requested.length, 1);
    t.regex((await check(t, name, () => undefined)).error ?? '', /closed the connection/);
  });
}

test('a key of Resend that may only send is good', async (t) => {
  const restricted = { status: 401, body: { name: 'restricted_api_key', message: 'only send' } };
  t.true((await check(t, 'resend', () => restricted)).ok);
  t.false((await check(t, 'stripe', () => restricted)).ok);
});

test('an address that is not open is not asked', async (t) => {
  const server = await serveProvider(t, () => ({ body: {} }));
  const deps = { egress: egressFor(t, ''), bases: { stripe: server.base, razorpay: server.base } };
  const checked = await checkProvider(deps, 'resend', configs(server.base).resend);
  t.false(checked.ok);
  t.regex(checked.error ?? '', /may not be reached from here/);
  t.is(server.requested.length, 0);
});
