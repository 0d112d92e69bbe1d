import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { webhookSecrets } from '#domain/webhooks/secrets.ts';
import type { WebhookRow } from '#domain/webhooks/store.ts';
import { openKeyRing } from '#lib/secrets.ts';
import type { TestUser } from '#test/support/client.ts';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type WebhookScene, receiverUrl, webhookScene } from './api-scene.ts';

const platform = usePlatform(test, { worker: false });

let owner: TestUser;

test.before(async () => {
  owner = await platform().client.signUp();
});

const scene = (): Promise<WebhookScene> => webhookScene(platform(), owner);

/** The secrets of a webhook as its deliveries would use them. */
const secretsOf = async (webhookId: string) => {
  const [row] = await platform().db.query<WebhookRow & { data_key: Buffer }>(
    'select w.*, p.data_key from webhooks w join projects p on p.id = w.project_id where w.id = $1',
    [webhookId],
  );
  if (row === undefined) throw new Error('there is no such webhook');
  const ring = openKeyRing(platform().config.PLINTH_SECRET_KEYS);
  return webhookSecrets(ring.sealerFor(row.project_id, row.data_key), row);
};

test('a webhook is made from {url, events}, with a secret of its own that is shown once', async (t) => {
  const { ask } = await scene();
  const { status, body } = await ask('POST', '/webhooks', { url: receiverUrl, events: ['db.insert'] });
  t.is(status, 201);
  const { id, secret, created_at: createdAt, updated_at: updatedAt, ...rest } = body;
  t.regex(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  t.deepEqual(rest, {
    name: null,
    filter: null,
    url: receiverUrl,
    events: ['db.insert'],
    active: true,
    is_active: true,
    send_secret: false,
    rate_per_second: 50,
    disabled_reason: null,
    failing_since: null,
    paused_until: null,
  });
  t.is(createdAt, updatedAt);
  t.is((await secretsOf(id)).secret, secret);
  for (const path of ['/webhooks', `/webhooks/${id}`]) t.notRegex((await ask('GET', path)).text, /"secret"|whsec_/);
});

test('a webhook is made from {name, url, events, is_active}, and from every field at once', async (t) => {
  const { ask } = await scene();
  const inactive = await ask('POST', '/webhooks', { name: 'a', url: receiverUrl, events: ['*'], is_active: false });
  t.like(inactive.body, { name: 'a', active: false, is_active: false });
  const fields = { name: 'b', send_secret: true, rate_per_second: 1000, active: true, is_active: true };
  const given = await ask('POST', '/webhooks', { url: receiverUrl, events: ['*'], secret: '12345678', ...fields });
  t.like(given.body, { ...fields, secret: '12345678' });
});

test('a change leaves alone what it does not name; no change is one, too', async (t) => {
  const { ask, made } = await scene();
  const id = await made({ name: 'n', send_secret: true, rate_per_second: 7 });
  const before = (await ask('GET', `/webhooks/${id}`)).body;
  const after = await ask('PUT', `/webhooks/${id}`, { events: ['auth.*'], active: false });
  t.is(after.status, 200);
  t.deepEqual(
    { ...after.body, updated_at: '' },
    { ...before, events: ['auth.*'], active: false, is_active: false, updated_at: '' },
  );
  t.like((await ask('PUT', `/webhooks/${id}`, {})).body, { events: ['auth.*'], is_active: false });
  t.is((await ask('PUT', `/webhooks/${id}`, { name: null })).body.name, null);
});

test('a rotated secret signs with the old one for a day; a third one takes the place of the second', async (t) => {
  const { ask, made } = await scene();
  const id = await made({ secret: 'the first secret'.replaceAll(' ', '-') });
  const rotated = await ask('POST', `/webhooks/${id}/rotate-secret`);
  t.is(rotated.status, 200);
  t.regex(rotated.body.secret, /^whsec_/);
  t.like(await secretsOf(id), { secret: rotated.body.secret, previousSecret: 'the-first-secret' });
  const own = await ask('POST', `/webhooks/${id}/rotate-secret`, { secret: 'my-own-secret' });
  t.is(own.body.secret, 'my-own-secret');
  t.like(await secretsOf(id), { secret: 'my-own-secret', previousSecret: rotated.body.secret });
  const changed = await ask('PUT', `/webhooks/${id}`, { secret: 'by-a-change' });
  t.false('secret' in changed.body);
  t.like(await secretsOf(id), { secret: 'by-a-change', previousSecret: 'my-own-secret' });
  await platform().db.transaction(
    (tx) => tx.query(`update webhooks set previous_secret_until = now() where id = $1`, [id]),
    systemActor,
  );
  t.like(await secretsOf(id), { secret: 'by-a-change', previousSecret: null });
  t.is((await ask('POST', `/webhooks/${id}/rotate-secret`, { secret: 'short' })).status, 400);
});

test('a secret is rotated with as much overlap as is asked for; 0 ends the old one at once', async (t) => {
  const { ask, made } = await scene();
  const id = await made({ secret: 'the-first-secret' });
  const untilOf = async (): Promise<number | null> => {
    const [row] = await platform().db.query<{ seconds: number | null }>(
      'select extract(epoch from previous_secret_until - updated_at)::float8 as seconds from webhooks where id = $1',
      [id],
    );
    return row?.seconds ?? null;
  };
  const rotate = (body: object) => ask('POST', `/webhooks/${id}/rotate-secret`, body);
  await rotate({ secret: 'second-secret', overlap_seconds: 60 });
  t.like(await secretsOf(id), { secret: 'second-secret', previousSecret: 'the-first-secret' });
  t.is(await untilOf(), 60);
  await rotate({ secret: 'third-secret', overlap_seconds: 0 });
  t.like(await secretsOf(id), { secret: 'third-secret', previousSecret: null });
  await rotate({});
  t.is(await untilOf(), 86_400);
  for (const overlap_seconds of [-1, 1.5, 30 * 86_400 + 1, '60']) t.is((await rotate({ overlap_seconds })).status, 400);
});

test('a webhook that is made active again, or gets another address, begins anew', async (t) => {
  const { ask, made } = await scene();
  const { db } = platform();
  const id = await made();
  const fail = (fields: string) =>
    db.transaction(async (tx) => {
      await tx.query(
        `update webhook_throttles set failures = 9, failing_since = now(), closed_until = now() + interval '1 hour' where webhook_id = $1`,
        [id],
      );
      await tx.query(`update webhooks set ${fields} where id = $1`, [id]);
    }, systemActor);
  await fail(`is_active = false, disabled_reason = 'gone'`);
  const broken = (await ask('GET', `/webhooks/${id}`)).body;
  t.like(broken, { active: false, disabled_reason: 'gone' });
  t.truthy(broken.failing_since && broken.paused_until);
  t.is((await ask('PUT', `/webhooks/${id}`, { name: 'still gone' })).body.disabled_reason, 'gone');
  const anew = { active: true, disabled_reason: null, failing_since: null, paused_until: null };
  t.like((await ask('PUT', `/webhooks/${id}`, { is_active: true })).body, anew);
  await fail(`name = 'x'`);
  t.truthy((await ask('PUT', `/webhooks/${id}`, { name: 'y', url: receiverUrl })).body.paused_until);
  t.like((await ask('PUT', `/webhooks/${id}`, { url: `${receiverUrl}/2` })).body, anew);
});

test('a deleted webhook, one of another project and a chat are nowhere', async (t) => {
  const { ask, made, project } = await scene();
  const { db } = platform();
  const id = await made();
  t.is((await ask('DELETE', `/webhooks/${id}`)).status, 204);
  const foreign = await (await scene()).made();
  const chat = await made();
  await db.transaction((tx) => tx.query(`update webhooks set kind = 'slack' where id = $1`, [chat]), systemActor);
  const since = { since: '2026-01-01T00:00:00Z' };
  for (const one of [id, foreign, chat, crypto.randomUUID(), 'nonsense']) {
    const did = crypto.randomUUID();
    for (const [method, path, body] of [
      ['GET', '', undefined],
      ['PUT', '', {}],
      ['DELETE', '', undefined],
      ['POST', '/rotate-secret', undefined],
      ['POST', '/test', undefined],
      ['GET', '/deliveries', undefined],
      ['GET', `/deliveries/${did}`, undefined],
      ['POST', `/deliveries/${did}/redeliver`, undefined],
      ['POST', '/replay', since],
    ] as const) {
      const answer = await ask(method, `/webhooks/${one}${path}`, body);
      t.is(answer.status, 404, `${method} ${path} of ${one}: ${answer.text}`);
    }
  }
  t.deepEqual((await ask('GET', '/webhooks')).body, { webhooks: [], total: 0 });
  t.is((await db.query('select from webhooks where project_id = $1 and deleted_at is null', [project.id])).length, 1);
});

test('a viewer sees webhooks and changes none', async (t) => {
  const { made, project } = await scene();
  const id = await made();
  const { token } = await addMember(platform(), project.orgId, 'viewer');
  const { call } = platform().client;
  const path = `/projects/${project.id}/integrations/webhooks`;
  t.is((await call('GET', `${path}/${id}/deliveries`, { token })).status, 200);
  t.is((await call('PUT', `${path}/${id}`, { token, body: { active: false } })).status, 403);
  t.is((await call('POST', `${path}/${id}/rotate-secret`, { token })).status, 403);
});

test('a list is in order of making, page by page', async (t) => {
  const { ask, made } = await scene();
  const ids = [await made(), await made(), await made()];
  const page = await ask('GET', '/webhooks?limit=2&offset=1');
  t.deepEqual(
    page.body.webhooks.map(({ id }: { id: string }) => id),
    ids.slice(1),
  );
  t.is(page.body.total, 3);
  t.is((await ask('GET', '/webhooks?limit=201')).status, 400);
});

test('the same Idempotency-Key makes one webhook, and shows its secret once', async (t) => {
  const { ask } = await scene();
  const send = () => ask('POST', '/webhooks', { url: receiverUrl, events: ['*'] }, { 'idempotency-key': 'k' });
  const [first, second] = [await send(), await send()];
  const { secret, ...shown } = first.body;
  t.truthy(secret);
  t.deepEqual(second.body, shown);
  t.is((await ask('GET', '/webhooks')).body.total, 1);
});

test('changes of webhooks are audited, their secrets are not', async (t) => {
  const { ask, made, project } = await scene();
  const id = await made({ secret: 'first-secret' });
  await ask('PUT', `/webhooks/${id}`, { active: false });
  await ask('POST', `/webhooks/${id}/rotate-secret`);
  await ask('DELETE', `/webhooks/${id}`);
  const rows = await platform().db.query<{ action: string; actor: { id: string }; after: Record<string, unknown> }>(
    `select action, actor, after from audit_entries where project_id = $1 and target_type = 'webhook' order by created_at`,
    [project.id],
  );
  t.deepEqual(
    rows.map(({ action }) => action),
    ['webhook.create', 'webhook.update', 'webhook.rotate_secret', 'webhook.delete'],
  );
  t.true(rows.every(({ actor }) => actor.id === owner.id));
  t.deepEqual(rows[1]?.after, { is_active: false });
  t.notRegex(JSON.stringify(rows), /sealed|first-secret/);
});

test('a project has no more webhooks than its plan allows', async (t) => {
  const { ask, project } = await scene();
  const addMany = (count: number) =>
    platform().db.transaction(async (tx) => {
      // Without the triggers: each entry of the audit log takes its time.
      await tx.query(`set local session_replication_role = replica`);
      await tx.query(
        `with made as (
           insert into webhooks (id, project_id, url, events, secret_sealed)
           select uuid_v7(), $1, 'http://127.0.0.1:9/', '{auth.login}', '' from generate_series(1, $2::int) returning id
         ) insert into webhook_throttles (webhook_id) select id from made`,
        [project.id, count],
      );
    });
  const moveTo = (plan: string) =>
    platform().db.transaction((tx) => tx.query('update projects set plan = $2 where id = $1', [project.id, plan]), {
      'plinth.actor': '{"type":"system"}',
    });
  const add = () => ask('POST', '/webhooks', { url: receiverUrl, events: ['auth.login'] });
  await moveTo('free');
  await addMany(99);
  t.is((await add()).status, 201);
  const refused = await add();
  t.is(refused.status, 403);
  t.is(refused.body.code, 'plan_limit_exceeded');
  await moveTo('pro');
  t.is((await add()).status, 201);
  await addMany(1000);
  t.is((await add()).status, 403);
  await moveTo('enterprise');
  t.is((await add()).status, 201);
});

test('events are listed with their groups', async (t) => {
  const { ask } = await scene();
  const { events } = (await ask('GET', '/events')).body as { events: { name: string; group: string }[] };
  const groups = Object.groupBy(events, ({ group }) => group);
  t.deepEqual(
    groups['database']?.map(({ name }) => name),
    ['db.insert', 'db.update', 'db.delete'],
  );
  t.true(events.some(({ name, group }) => name === 'table.<table>.INSERT' && group === 'table'));
});
