import test from 'ava';
import { type DataLink, dataUrlOf } from '#domain/webhooks/message.ts';
import { openKeyRing } from '#lib/secrets.ts';
import type { TestUser } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type WebhookScene, insertDelivery, webhookScene } from './api-scene.ts';

const platform = usePlatform(test, { worker: false });

let owner: TestUser;

test.before(async () => {
  owner = await platform().client.signUp();
});

const scene = (): Promise<WebhookScene> => webhookScene(platform(), owner);

/** A link to the data of an event of that project, made `hours` ago. */
const linkOf = async (projectId: string, link: DataLink, hours: number): Promise<string> => {
  const [row] = await platform().db.query<{ data_key: Buffer }>('select data_key from projects where id = $1', [
    projectId,
  ]);
  if (row === undefined) throw new Error('there is no such project');
  const sealer = openKeyRing(platform().config.PLINTH_SECRET_KEYS).sealerFor(projectId, row.data_key);
  return dataUrlOf({ sealer, baseUrl: '' }, link, Date.now() - hours * 3_600_000);
};

test('data that are too large to be sent are behind a link, as they were written', async (t) => {
  const { ask, made } = await scene();
  const webhookId = await made();
  const text = `${'\\"}\\\\'.repeat(100_000)}\\u0000`;
  const data = `{"row":{"old":{"n":1.50},"text":"${text}","list":[{"a":"{"}]},"old":{"n":9007199254740993}}`;
  const { id } = await insertDelivery(platform(), webhookId, { event: 'db.update', data });
  const { body } = await ask('GET', `/webhooks/${webhookId}/deliveries/${id}`);
  const sent = JSON.parse(body.request_body);
  t.deepEqual(Object.keys(sent), ['id', 'event', 'project_id', 'timestamp', 'data_url']);
  const row = await fetch(sent.data_url);
  t.is(row.status, 200);
  t.is(row.headers.get('cache-control'), 'no-store');
  t.is(await row.text(), `{"old":{"n":1.50},"text":"${text}","list":[{"a":"{"}]}`);
  t.is(await (await fetch(`${sent.data_url}&part=old`)).text(), '{"n":9007199254740993}');
});

test('a link works for a day, for its own event and nobody else’s', async (t) => {
  const { made, project } = await scene();
  const webhookId = await made();
  const { eventId } = await insertDelivery(platform(), webhookId);
  const other = await insertDelivery(platform(), webhookId);
  const { call } = platform().client;
  const own = { eventId, webhookId };
  t.is((await call('GET', await linkOf(project.id, own, 23))).text, '{"n":1}');
  t.is((await call('GET', `${await linkOf(project.id, own, 23)}&part=old`)).status, 404);
  t.is((await call('GET', await linkOf(project.id, own, 25))).body.code, 'expired');
  const link = await linkOf(project.id, own, 0);
  const foreign = await scene();
  for (const bad of [
    link.replace(eventId, other.eventId),
    link.replace(eventId, crypto.randomUUID()),
    link.replace(/token=.*/, 'token=AAAA'),
    await linkOf(foreign.project.id, own, 0),
  ]) {
    t.is((await call('GET', bad)).status, 404, bad);
  }
  t.is((await call('GET', link.replace(/\?.*/, ''))).status, 400);
});

test('a link ends with its webhook, and with the project', async (t) => {
  const { ask, made, project } = await scene();
  const [one, other] = [await made(), await made()];
  const { eventId } = await insertDelivery(platform(), one);
  const links = [
    await linkOf(project.id, { eventId, webhookId: one }, 0),
    await linkOf(project.id, { eventId, webhookId: other }, 0),
  ];
  const statuses = async () => {
    const answers = await Promise.all(links.map((link) => platform().client.call('GET', link)));
    return answers.map(({ status }) => status);
  };
  t.deepEqual(await statuses(), [200, 200]);
  t.is((await ask('DELETE', `/webhooks/${one}`)).status, 204);
  t.deepEqual(await statuses(), [404, 200]);
  await platform().db.transaction(
    (tx) => tx.query(`update projects set deleted_at = now(), status = 'deleting' where id = $1`, [project.id]),
    { 'plinth.actor': '{"type":"system"}' },
  );
  t.deepEqual(await statuses(), [404, 404]);
});
