import test from 'ava';
import { Stripe } from 'stripe';
import { type InboundDeps, receive } from '#domain/integrations/inbound.ts';
import { createJsonParser } from '#lib/json-parser.ts';
import { openKeyRing } from '#lib/secrets.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { integrationScene, subscribeTo } from './scene.ts';

const platform = usePlatform(test, { shared: true });

const stripe = { secret_key: 'sk_test_0123456789abcdef', webhook_secret: 'whsec_0123456789abcdefghij' };
const payload = '{"id":"evt_1","type":"invoice.paid"}';

const json = createJsonParser();
test.after.always('the threads end', () => json.close());

type Loads = Awaited<ReturnType<InboundDeps['gate']['projects']>>;

const depsWith = (loads: Loads, admit: InboundDeps['gate']['admit']): InboundDeps => {
  const { db, config } = platform();
  const ring = openKeyRing(config.PLINTH_SECRET_KEYS);
  return {
    db,
    gate: { projects: () => Promise.resolve(loads), admit },
    projects: { sealer: ({ id, data_key }) => ring.sealerFor(id, data_key) },
    paypal: { isGenuine: () => Promise.resolve(false) },
    events: { markWaiting: () => undefined },
    caps: { free: null, pro: null, enterprise: null },
    json,
    log: memoryLog().log,
  };
};

const sceneWithFunction = async () => {
  const scene = await integrationScene(platform());
  const { id } = await platform().client.deploy(scene.user, scene.project, 'export const handler = () => 1;');
  await scene.configure('stripe', { ...stripe, function_id: id });
  await subscribeTo(platform(), scene, ['payments.*']);
  const call = {
    projectId: scene.project.id,
    provider: 'stripe',
    header: () => Stripe.webhooks.generateTestHeaderString({ payload, secret: stripe.webhook_secret }),
    body: () => Promise.resolve(Buffer.from(payload)),
    requestId: 'r',
    network: '192.0.2.1',
  };
  return { ...scene, call };
};

const never = () => Promise.reject(new Error('not to be admitted'));

test('while too many runs wait the call is refused and nothing is kept, so that it comes again', async (t) => {
  const { call, events, jobs, project } = await sceneWithFunction();
  const full = { projectId: project.id, running: 5, waiting: 10, leased: 5, queued: 10 };
  await t.throwsAsync(receive(depsWith([full], never), call), { code: 'queue_full' });
  t.deepEqual([await events(), await jobs()], [[], []]);
  await receive(
    depsWith([{ ...full, queued: 9 }], () => Promise.resolve('waiting')),
    call,
  );
  t.deepEqual([(await events()).length, (await jobs()).length], [1, 1]);
});

test('a gate that is away after the commit changes nothing: the event and the run are kept', async (t) => {
  const { call, events, jobs } = await sceneWithFunction();
  await receive(
    depsWith([], () => Promise.reject(new Error('Connection is closed'))),
    call,
  );
  t.deepEqual([(await events()).length, (await jobs()).length], [1, 1]);
});

test('a large event is taken, and one of too many values is refused before anything is built of it', async (t) => {
  const { call, events } = await sceneWithFunction();
  const deps = depsWith([], () => Promise.resolve('waiting'));
  const send = (text: string) =>
    receive(deps, {
      ...call,
      header: () => Stripe.webhooks.generateTestHeaderString({ payload: text, secret: stripe.webhook_secret }),
      body: () => Promise.resolve(Buffer.from(text)),
    });
  const many = `{"id":"evt_2","type":"invoice.paid","data":[${'{},'.repeat(200_000)}{}]}`;
  await t.throwsAsync(send(many), { code: 'payload_too_large' });
  t.deepEqual(await events(), []);
  await send(`{"id":"evt_3","type":"invoice.paid","data":"${'x'.repeat(500_000)}"}`);
  t.is((await events()).length, 1);
});
