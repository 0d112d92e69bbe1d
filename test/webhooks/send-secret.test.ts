import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { type WebhookScene, webhookScene } from './api-scene.ts';

const platform = usePlatform(test, { worker: false, shared: true });

let scene: WebhookScene;

test.before(async () => {
  scene = await webhookScene(platform());
});

const url = 'http://127.0.0.1:9/hook';
const elsewhere = 'http://127.0.0.2:9/hook';

const change = (id: string, fields: Readonly<Record<string, unknown>>) => scene.ask('PUT', `/webhooks/${id}`, fields);

for (const [what, before, fields] of [
  ['that is to be sent along', {}, { send_secret: true }],
  ['that is to be sent along to somebody else', {}, { send_secret: true, url: elsewhere }],
  ['that is sent along, to another host', { send_secret: true }, { url: elsewhere }],
  ['that is sent along, to another port', { send_secret: true }, { url: 'http://127.0.0.1:10/hook' }],
  ['that is sent along, by another scheme', { send_secret: true }, { url: 'https://127.0.0.1:9/hook' }],
  ['that is sent along while it is inactive', { send_secret: true, active: false }, { url: elsewhere, active: true }],
] as const) {
  test(`a secret ${what}, has to be given again`, async (t) => {
    const id = await scene.made({ url, secret: 'set-by-an-admin', ...before });
    const { body: present } = await scene.ask('GET', `/webhooks/${id}`);
    const refused = await change(id, fields);
    t.is(refused.status, 400);
    t.is(refused.body.code, 'secret_required');
    t.deepEqual(refused.body.details[0].path, 'secret');
    t.deepEqual((await scene.ask('GET', `/webhooks/${id}`)).body, present);
    t.like((await change(id, { ...fields, secret: 'set-by-somebody' })).body, fields);
  });
}

test('a secret that is not sent along, or stays where it is sent to, need not be given', async (t) => {
  const sent = await scene.made({ url, send_secret: true });
  const kept = await scene.made({ url });
  t.is((await change(sent, { url: `${url}/deeper?x=1`, send_secret: true, name: 'x' })).status, 200);
  t.is((await change(kept, { url: elsewhere })).status, 200);
  t.is((await change(sent, { send_secret: false, url: elsewhere })).status, 200);
  t.is((await change(sent, { send_secret: true })).body.code, 'secret_required');
});
