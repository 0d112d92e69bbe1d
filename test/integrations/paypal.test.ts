import test, { type ExecutionContext } from 'ava';
import { createPaypal } from '#domain/integrations/paypal.ts';
import { createEgress } from '#lib/egress.ts';
import { isError } from '#test/support/is-error.ts';
import { paypalApp, paypalHeaders, servePaypal } from '#test/support/paypal-server.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { type IntegrationScene, integrationScene, subscribeTo } from './scene.ts';

const platform = usePlatform(test, { shared: true });

const event = (id: string): string =>
  `{"id":"${id}", "event_type":"PAYMENT.CAPTURE.COMPLETED","resource":{"amount":{"value":"10.00"}}, "n":1.0}`;

const configOf = (base: string) => ({
  ...paypalApp,
  webhook_id: 'WH123',
  environment: 'sandbox' as const,
  base_url: base,
});

const paypalScene = async (base: string): Promise<IntegrationScene> => {
  const scene = await integrationScene(platform());
  const answer = await scene.configure('paypal', configOf(base));
  if (answer.status !== 200) throw new Error(answer.text);
  await subscribeTo(platform(), scene, ['payments.paypal.*']);
  return scene;
};

test('a call is taken when PayPal says that it is its own: asked with the text as it came', async (t) => {
  const server = await servePaypal(t);
  const scene = await paypalScene(server.base);
  const text = event('WH-1');
  const headers = paypalHeaders(text);
  const answer = await scene.report('paypal', text, headers);
  t.is(answer.status, 200, answer.text);
  t.deepEqual(await scene.events(), [{ event: 'payments.paypal.PAYMENT.CAPTURE.COMPLETED', data: text }]);
  const [token, verify] = server.requested;
  t.is(token?.body, 'grant_type=client_credentials');
  t.true(verify?.body.endsWith(`"webhook_event":${text}}`));
  t.like(JSON.parse(verify?.body ?? ''), {
    webhook_id: 'WH123',
    transmission_id: headers['paypal-transmission-id'],
    auth_algo: 'SHA256withRSA',
    cert_url: headers['paypal-cert-url'],
  });
});

test('what PayPal does not know, or cannot have sent, is 401 and kept nowhere', async (t) => {
  const server = await servePaypal(t);
  const scene = await paypalScene(server.base);
  const text = event('WH-1');
  const { 'paypal-cert-url': _, ...short } = paypalHeaders(text);
  for (const headers of [
    paypalHeaders(event('WH-2')),
    short,
    {},
    { ...paypalHeaders(text), 'paypal-transmission-sig': 'x'.repeat(2000) },
    paypalHeaders(text, new Date(Date.now() - 30 * 86_400_000)),
    { ...paypalHeaders(text), 'paypal-transmission-time': 'yesterday' },
    { ...paypalHeaders(text), 'paypal-auth-algo': 'SHA1withRSA' },
    { ...paypalHeaders(text), 'paypal-cert-url': 'https://evil.example/cert' },
  ]) {
    isError(t, await scene.report('paypal', text, headers), 401, 'invalid_signature');
  }
  t.deepEqual(await scene.events(), []);
  // Only the first was worth asking.
  t.is(server.requested.filter(({ path }) => path.includes('verify')).length, 1);
});

test('a body that would say more to PayPal than the event is no event', async (t) => {
  const server = await servePaypal(t);
  const scene = await paypalScene(server.base);
  const text = `${event('WH-1')},"webhook_id":"other"`;
  isError(t, await scene.report('paypal', text, paypalHeaders(text)), 400, 'invalid_json');
  isError(t, await scene.report('paypal', 'x', paypalHeaders('x')), 400, 'invalid_json');
  t.is(server.requested.length, 0);
});

test('one token serves many calls; one that was taken back is asked for anew', async (t) => {
  const server = await servePaypal(t);
  const scene = await paypalScene(server.base);
  const report = (id: string) => scene.report('paypal', event(id), paypalHeaders(event(id)));
  await Promise.all(Array.from({ length: 12 }, (_, i) => report(`WH-${i}`)));
  t.is(server.tokensGiven(), 1);
  server.takeTokensBack();
  t.is((await report('WH-later')).status, 200);
  t.is(server.tokensGiven(), 2);
  t.is((await scene.events()).length, 13);
});

test('a token is not used beyond its time', async (t) => {
  const server = await servePaypal(t, { expiresIn: 60 });
  const scene = await paypalScene(server.base);
  await scene.report('paypal', event('WH-1'), paypalHeaders(event('WH-1')));
  // Its last minute had begun when it was given.
  await scene.report('paypal', event('WH-2'), paypalHeaders(event('WH-2')));
  t.is(server.tokensGiven(), 2);
});

test('a repeat is confirmed and does nothing', async (t) => {
  const server = await servePaypal(t);
  const scene = await paypalScene(server.base);
  const text = event('WH-1');
  for (let i = 0; i < 3; i += 1) t.is((await scene.report('paypal', text, paypalHeaders(text))).status, 200);
  t.is((await scene.events()).length, 1);
});

for (const [what, path, answer] of [
  ['gives no token', '/v1/oauth2/token', { status: 401, body: { error: 'invalid_client' } }],
  ['gives a token that is none', '/v1/oauth2/token', { body: { access_token: 'a\r\nb' } }],
  ['answers no JSON', '/v1/oauth2/token', { body: '<html>' }],
  ['is down', '/v1/oauth2/token', 'cut'],
  ['fails at the question', '/v1/notifications/verify-webhook-signature', { status: 500 }],
  ['goes away at the question', '/v1/notifications/verify-webhook-signature', 'cut'],
  ['limits us', '/v1/notifications/verify-webhook-signature', { status: 429 }],
  ['sends us elsewhere', '/v1/notifications/verify-webhook-signature', { status: 301, headers: { location: '/x' } }],
] as const) {
  test(`when PayPal ${what}, the call is 502, so that it comes again, and is taken then`, async (t) => {
    let failing = true;
    const server = await servePaypal(t, {
      instead: (requested) => (failing && requested.path === path ? answer : undefined),
    });
    const scene = await paypalScene(server.base);
    const text = event('WH-1');
    const refused = await scene.report('paypal', text, paypalHeaders(text));
    isError(t, refused, 502, 'provider_unavailable');
    t.false(refused.text.includes(paypalApp.client_secret));
    t.deepEqual(await scene.events(), []);
    failing = false;
    t.is((await scene.report('paypal', text, paypalHeaders(text))).status, 200);
    t.is((await scene.events()).length, 1);
  });
}

test('changed credentials count at once: no token of the old ones is used', async (t) => {
  const server = await servePaypal(t);
  const scene = await paypalScene(server.base);
  const report = (id: string) => scene.report('paypal', event(id), paypalHeaders(event(id)));
  t.is((await report('WH-1')).status, 200);
  await scene.configure('paypal', { ...configOf(server.base), client_secret: 'no-longer-valid-0123' });
  isError(t, await report('WH-2'), 502, 'provider_unavailable');
});

/** A PayPal that answers questions when `gate` is opened; `asking` says how many are under way. */
const gatedPaypal = async (t: ExecutionContext) => {
  const gate = Promise.withResolvers<void>();
  const asking: string[] = [];
  const server = await servePaypal(t);
  const egress = createEgress({ allow: '127.0.0.0/8', local: true });
  t.teardown(() => egress.close());
  const paypal = createPaypal({
    fetch: async (...args) => {
      const answer = await egress.fetch(...args);
      if (!args[0].includes('verify')) return answer;
      asking.push(args[0]);
      await gate.promise;
      return answer;
    },
  });
  const ask = (id: string, network: string) => {
    const headers = paypalHeaders('{}');
    const account = { id, config_version: 1, config: configOf(server.base) };
    return paypal.isGenuine(account, { header: (name) => headers[name] ?? '', text: '{}', network });
  };
  return { ask, asking, open: gate.resolve };
};

const many = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));

test('of one network four questions are under way at a time: nobody else waits for them', async (t) => {
  const { ask, asking, open } = await gatedPaypal(t);
  const flood = many(20, () => ask('one', '192.0.2.1'));
  await until(() => asking.length === 4);
  const others = [ask('one', '192.0.2.2'), ask('two', '192.0.2.1')];
  await until(() => asking.length >= 6);
  t.is(asking.length, 6);
  open();
  t.deepEqual(
    await Promise.all([...flood, ...others]),
    many(22, () => true),
  );
});

test('of one project sixteen questions are under way at a time, whoever calls', async (t) => {
  const { ask, asking, open } = await gatedPaypal(t);
  const flood = many(40, (i) => ask('one', `192.0.2.${i % 20}`));
  await until(() => asking.length >= 16);
  const other = ask('two', '192.0.2.1');
  await until(() => asking.length >= 17);
  t.is(asking.length, 17);
  open();
  t.deepEqual(
    await Promise.all([...flood, other]),
    many(41, () => true),
  );
});
