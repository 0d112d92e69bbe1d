import { createHmac } from 'node:crypto';
import test from 'ava';
import { Stripe } from 'stripe';
import { monthlyCaps } from '#domain/functions/functions.ts';
import { deleteOldProviderEvents } from '#domain/integrations/store.ts';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { type IntegrationScene, integrationScene, subscribeTo } from './scene.ts';

const platform = usePlatform(test, { settings: { PLINTH_MONTHLY_CAP_FREE: '1000' } });

const stripe = { secret_key: 'sk_test_0123456789abcdef', webhook_secret: 'whsec_0123456789abcdefghij' };
const razorpay = {
  key_id: 'rzp_test_1',
  key_secret: 'secret',
  webhook_secret: 'razorpay webhook secret'.replaceAll(' ', '-'),
};

interface Signing {
  readonly secret?: string;
  /** Seconds from now. */
  readonly at?: number;
}

const stripeHeaders = (payload: string, { secret = stripe.webhook_secret, at = 0 }: Signing = {}) => ({
  'stripe-signature': Stripe.webhooks.generateTestHeaderString({
    payload,
    secret,
    timestamp: Math.floor(Date.now() / 1000) + at,
  }),
});

const razorpayHeaders = (payload: string, id?: string): Record<string, string> => ({
  'x-razorpay-signature': createHmac('sha256', razorpay.webhook_secret).update(payload).digest('hex'),
  ...(id !== undefined && { 'x-razorpay-event-id': id }),
});

const stripeEvent = (id: string, type = 'invoice.paid', extra = ''): string =>
  `{ "id": "${id}",\n  "type": "${type}", "data": {"object": {"amount": 12345678901234567890, "rate": 1.0${extra}}} }`;

const withFunction = async (scene: IntegrationScene): Promise<string> => {
  const { client } = platform();
  const code = 'export const handler = (payload) => payload.id;';
  const { id } = await client.deploy(scene.user, scene.project, code);
  return id;
};

const stripeScene = async (): Promise<IntegrationScene> => {
  const scene = await integrationScene(platform());
  await scene.configure('stripe', stripe);
  await subscribeTo(platform(), scene, ['payments.*']);
  return scene;
};

test('a call that Stripe signed is told to webhooks, its text exactly as it came', async (t) => {
  const scene = await stripeScene();
  const payload = stripeEvent('evt_1');
  const answer = await scene.report('stripe', payload, stripeHeaders(payload));
  t.is(answer.status, 200);
  t.deepEqual(answer.body, { received: true });
  t.deepEqual(await scene.events(), [{ event: 'payments.stripe.invoice.paid', data: payload }]);
});

test('what does not fit its signature is 401, and nothing of it is kept', async (t) => {
  const scene = await stripeScene();
  const payload = stripeEvent('evt_1');
  const good = stripeHeaders(payload);
  const refused = [
    await scene.report('stripe', payload, {}),
    await scene.report('stripe', payload, stripeHeaders(payload, { secret: 'whsec_other' })),
    await scene.report('stripe', payload, stripeHeaders(payload, { at: -400 })),
    await scene.report('stripe', payload, stripeHeaders(payload, { at: 400 })),
    await scene.report('stripe', payload.replace('evt_1', 'evt_2'), good),
    await scene.report('stripe', ` ${payload}`, good),
    await scene.report('stripe', '', good),
    await scene.report('stripe', 'not even JSON', good),
  ];
  for (const answer of refused) isError(t, answer, 401, 'invalid_signature');
  t.deepEqual(await scene.events(), []);
  t.is((await platform().db.query('select from provider_events where project_id = $1', [scene.project.id])).length, 0);
});

test('both secrets are taken while Stripe rolls one', async (t) => {
  const scene = await stripeScene();
  const payload = stripeEvent('evt_1');
  const [, at, other] =
    /^(t=\d+),(v1=\w+)/.exec(stripeHeaders(payload, { secret: 'whsec_old' })['stripe-signature']) ?? [];
  const good = createHmac('sha256', stripe.webhook_secret)
    .update(`${at?.slice(2)}.${payload}`)
    .digest('hex');
  const answer = await scene.report('stripe', payload, { 'stripe-signature': `${at},${other},v1=${good}` });
  t.is(answer.status, 200, answer.text);
});

test('a repeat is confirmed and does nothing, signed anew or not', async (t) => {
  const scene = await stripeScene();
  const payload = stripeEvent('evt_1');
  const first = stripeHeaders(payload, { at: -5 });
  for (const headers of [first, first, stripeHeaders(payload)]) {
    t.deepEqual((await scene.report('stripe', payload, headers)).body, { received: true });
  }
  t.is((await scene.events()).length, 1);
});

test('of twenty reports of one event at once there is one event and one run', async (t) => {
  const scene = await stripeScene();
  const functionId = await withFunction(scene);
  await scene.configure('stripe', { ...stripe, function_id: functionId });
  const payload = stripeEvent('evt_many');
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => scene.report('stripe', payload, stripeHeaders(payload))),
  );
  t.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  t.is((await scene.events()).length, 1);
  const jobs = await scene.jobs();
  t.is(jobs.length, 1);
});

test('the function of the config runs with the event as its payload, and says that a webhook began it', async (t) => {
  const scene = await stripeScene();
  const functionId = await withFunction(scene);
  await scene.configure('stripe', { ...stripe, function_id: functionId });
  const payload = stripeEvent('evt_run');
  await scene.report('stripe', payload, stripeHeaders(payload));
  const { call } = platform().client;
  const invocation = await until(async () => {
    const path = `/projects/${scene.project.id}/functions/${functionId}/invocations`;
    const [run] = (await call('GET', path, { token: scene.user.token })).body.invocations;
    return run as { trigger: string; status: string } | undefined;
  });
  t.like(invocation, { trigger: 'webhook', status: 'success' });
  const [job] = await scene.jobs();
  t.is((JSON.parse(job?.data ?? '') as { payload: string }).payload, payload);
});

test('a function that was deleted meanwhile holds up no event', async (t) => {
  const scene = await stripeScene();
  const functionId = await withFunction(scene);
  await scene.configure('stripe', { ...stripe, function_id: functionId });
  const path = `/projects/${scene.project.id}/functions/${functionId}`;
  await platform().client.call('DELETE', path, { token: scene.user.token });
  const payload = stripeEvent('evt_1');
  t.is((await scene.report('stripe', payload, stripeHeaders(payload))).status, 200);
  t.is((await scene.events()).length, 1);
  t.is((await scene.jobs()).length, 0);
  t.true(platform().logged().includes('the function of a payment provider is gone'));
});

test('over the monthly cap the event is told, and the function not run', async (t) => {
  const scene = await stripeScene();
  const functionId = await withFunction(scene);
  await scene.configure('stripe', { ...stripe, function_id: functionId });
  await platform().db.query(
    `insert into job_usage (project_id, type, month, used, granted, most)
     values ($1, 'function.invoke', date_trunc('month', now() at time zone 'utc'), $2, 0, 0)`,
    [scene.project.id, monthlyCaps(platform().config).free],
  );
  const payload = stripeEvent('evt_1');
  t.is((await scene.report('stripe', payload, stripeHeaders(payload))).status, 200);
  t.is((await scene.events()).length, 1);
  t.is((await scene.jobs()).length, 0);
});

test('nothing that is signed is taken where nothing is configured, or no longer, or not now', async (t) => {
  const scene = await stripeScene();
  const payload = stripeEvent('evt_1');
  const headers = stripeHeaders(payload);
  const { call } = platform().client;
  const at = (path: string) => call('POST', path, { raw: payload, headers });
  for (const name of ['razorpay', 'paypal', 'slack', 'resend', 'teams', 'constructor', '__proto__']) {
    isError(t, await scene.report(name, payload, headers), 404, 'not_found');
  }
  isError(t, await at(`/hooks/${crypto.randomUUID()}/stripe`), 404, 'not_found');
  isError(t, await at('/hooks/nonsense/stripe'), 404, 'not_found');
  await scene.ask('POST', '/stripe/toggle');
  isError(t, await scene.report('stripe', payload, headers), 404, 'not_found');
  await scene.ask('POST', '/stripe/toggle');
  await call('DELETE', `/projects/${scene.project.id}`, { token: scene.user.token });
  isError(t, await scene.report('stripe', payload, headers), 404, 'not_found');
  t.deepEqual(await scene.events(), []);
});

test('a call signed for one project is nothing to another', async (t) => {
  const [mine, other] = [await stripeScene(), await integrationScene(platform())];
  await other.configure('stripe', { ...stripe, webhook_secret: 'whsec_of_somebody_else_1234' });
  const payload = stripeEvent('evt_1');
  isError(t, await other.report('stripe', payload, stripeHeaders(payload)), 401, 'invalid_signature');
  t.is((await mine.report('stripe', payload, stripeHeaders(payload))).status, 200);
});

// Nothing of them is kept, so that they can share a project.
let shared: Promise<IntegrationScene> | undefined;
const sharedScene = (): Promise<IntegrationScene> => (shared ??= stripeScene());

const unusable: Readonly<Record<string, readonly [string, string]>> = {
  'no JSON': ['not JSON', 'invalid_json'],
  'an array': ['[{"id":"evt_1","type":"a"}]', 'validation_failed'],
  null: ['null', 'validation_failed'],
  'no id': ['{"type":"a"}', 'validation_failed'],
  'an id that is no text': ['{"id":1,"type":"a"}', 'validation_failed'],
  'an id of kilobytes': [`{"id":"${'x'.repeat(3000)}","type":"a"}`, 'validation_failed'],
  'no type': ['{"id":"evt_1"}', 'validation_failed'],
  'a type of everything': ['{"id":"evt_1","type":"*"}', 'validation_failed'],
  'a type with a line break': ['{"id":"evt_1","type":"a\\nb"}', 'validation_failed'],
  'a nest of a hundred thousand': [
    `{"id":"evt_1","type":"a","x":${'['.repeat(1e5)}${']'.repeat(1e5)}}`,
    'invalid_json',
  ],
};

for (const [what, [payload, code]] of Object.entries(unusable)) {
  test(`a signed body with ${what} is 400 ${code}`, async (t) => {
    const scene = await sharedScene();
    isError(t, await scene.report('stripe', payload, stripeHeaders(payload)), 400, code);
    t.deepEqual(await scene.events(), []);
  });
}

test('a body that is not UTF-8 is 400, one over a megabyte 413', async (t) => {
  const scene = await stripeScene();
  const bytes = Buffer.from([0x7b, 0xff, 0x7d]);
  const signed = createHmac('sha256', stripe.webhook_secret);
  const at = Math.floor(Date.now() / 1000);
  const header = `t=${at},v1=${signed.update(`${at}.`).update(bytes).digest('hex')}`;
  isError(t, await scene.report('stripe', bytes, { 'stripe-signature': header }), 400, 'invalid_json');
  const large = stripeEvent('evt_1', 'a', `,"x":"${'x'.repeat(1024 * 1024)}"`);
  isError(t, await scene.report('stripe', large, stripeHeaders(large)), 413, 'payload_too_large');
});

test('NUL and half characters in an event are kept as they were written', async (t) => {
  const scene = await stripeScene();
  const payload = '{"id":"evt_odd","type":"a.b","x":"\\u0000 \\ud800"}';
  t.is((await scene.report('stripe', payload, stripeHeaders(payload))).status, 200);
  t.deepEqual(await scene.events(), [{ event: 'payments.stripe.a.b', data: payload }]);
});

test('Razorpay’s calls are known again by their id, and by their text whatever id is claimed', async (t) => {
  const scene = await integrationScene(platform());
  await scene.configure('razorpay', razorpay);
  await subscribeTo(platform(), scene, ['payments.razorpay.*']);
  const payload = JSON.stringify({ event: 'payment.captured', created_at: Math.floor(Date.now() / 1000), n: 1 });
  t.is((await scene.report('razorpay', payload, razorpayHeaders(payload, 'ev_1'))).status, 200);
  // The same again; its id in the text of another; the same text under another id, and under none.
  const changed = payload.replace('"n":1', '"n":2');
  await scene.report('razorpay', payload, razorpayHeaders(payload, 'ev_1'));
  await scene.report('razorpay', changed, razorpayHeaders(changed, 'ev_1'));
  await scene.report('razorpay', payload, razorpayHeaders(payload, 'ev_2'));
  await scene.report('razorpay', payload, razorpayHeaders(payload));
  t.deepEqual(await scene.events(), [{ event: 'payments.razorpay.payment.captured', data: payload }]);
  // That somebody claimed its id with a text that is known takes nothing from an event.
  const other = payload.replace('"n":1', '"n":3');
  await scene.report('razorpay', other, razorpayHeaders(other, 'ev_2'));
  t.is((await scene.events()).length, 2);
});

test('Razorpay: a wrong signature, another body and an event of last month are 401', async (t) => {
  const scene = await integrationScene(platform());
  await scene.configure('razorpay', razorpay);
  await subscribeTo(platform(), scene, ['payments.*']);
  const payload = JSON.stringify({ event: 'payment.captured', created_at: Math.floor(Date.now() / 1000) });
  const old = JSON.stringify({ event: 'payment.captured', created_at: Math.floor(Date.now() / 1000) - 30 * 86_400 });
  for (const answer of [
    await scene.report('razorpay', payload, {}),
    await scene.report('razorpay', `${payload} `, razorpayHeaders(payload, 'ev_1')),
    await scene.report('razorpay', payload, { 'x-razorpay-signature': '0'.repeat(64) }),
    await scene.report('razorpay', old, razorpayHeaders(old, 'ev_1')),
  ]) {
    isError(t, answer, 401, 'invalid_signature');
  }
  t.deepEqual(await scene.events(), []);
});

test('what is known of repeats is forgotten after a month', async (t) => {
  const scene = await stripeScene();
  const { db } = platform();
  const keep = (key: string, days: number) =>
    db.query(`insert into provider_events values ($1, 'stripe', $2, now() - make_interval(days => $3))`, [
      scene.project.id,
      key,
      days,
    ]);
  await keep('old', 31);
  await keep('new', 29);
  await deleteOldProviderEvents(db, 100);
  const left = await db.query('select event_key from provider_events where project_id = $1', [scene.project.id]);
  t.deepEqual(left, [{ event_key: 'new' }]);
});
