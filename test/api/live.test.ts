import test from 'ava';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type EventSource, listen } from '#test/support/sse.ts';
import { until } from '#test/support/until.ts';
import { memberIdOf } from '#test/support/organization.ts';

const platform = usePlatform(test);

const setUp = async () => {
  const { client, base } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const fn = await client.deploy(user, project, 'export const handler = () => 1;');
  const at = `/projects/${project.id}`;
  const ask = (method: string, path: string, body?: unknown) =>
    client.call(method, at + path, { token: user.token, ...(body !== undefined && { body }) });
  const follow = async (token = user.token, headers: Record<string, string> = {}): Promise<EventSource> => {
    const source = await listen(`${base}${at}/live`, token, { accept: 'text/event-stream', ...headers });
    if (source.status === 200) await until(() => source.events.length > 0);
    return source;
  };
  return { user, project, fn, ask, follow };
};

const notified = (source: EventSource, topic: string) =>
  until(() => source.events.some(({ event, data }) => event === 'changed' && data.topics.includes(topic)));

test('who listens hears of jobs, invocations, deliveries and the schema, and a stranger hears nothing', async (t) => {
  const { ask, fn, project, follow } = await setUp();
  const source = await follow();
  t.is(source.headers.get('cache-control'), 'no-store');
  t.deepEqual(source.events[0], { event: 'ready', data: { topics: [] } });
  await ask('POST', `/functions/${fn.id}/invoke`, { payload: 1 });
  await notified(source, 'jobs');
  await notified(source, 'invocations');
  await ask('POST', '/db/query', { sql: 'create table notes (id int)' });
  await notified(source, 'schema');
  const webhook = await ask('POST', '/integrations/webhooks', { url: 'http://127.0.0.1:9/', events: ['auth.*'] });
  await platform().db.query(
    `insert into webhook_deliveries (webhook_id, project_id, event_id, event, status, finished_at)
     values ($1, $2, gen_random_uuid(), 'auth.login', 'success', now())`,
    [webhook.body.id, project.id],
  );
  await notified(source, 'deliveries');
  source.close();
  const stranger = await platform().client.signUp();
  t.is((await follow(stranger.token)).status, 404);
});

test('who comes back is notified what changed meanwhile, and nothing else', async (t) => {
  const { ask, fn, user, project, follow } = await setUp();
  const first = await fetch(`${platform().base}/projects/${project.id}/live`, {
    headers: { authorization: `Bearer ${user.token}`, accept: 'text/event-stream' },
  });
  const reader = first.body?.getReader();
  const text = new TextDecoder().decode((await reader?.read())?.value);
  await reader?.cancel();
  const [, id = ''] = /^id: (\S+)/.exec(text) ?? [];
  t.regex(id, /^[\w-]{12}\.[\w-]{12}\.[\w-]{12}$/);
  t.deepEqual((await ask('GET', '/live')).body, { id });
  const same = await follow(user.token, { 'last-event-id': id });
  t.deepEqual(same.events[0], { event: 'changed', data: { topics: ['schema'] } });
  same.close();
  await ask('POST', `/functions/${fn.id}/invoke`, { payload: 1 });
  await until(async () => (await ask('GET', '/jobs?status=succeeded&type=function.invoke')).body.total === 1);
  const later = await follow(user.token, { 'last-event-id': id });
  t.deepEqual(later.events[0]?.data.topics.toSorted(), ['invocations', 'jobs', 'schema']);
  later.close();
  t.not((await ask('GET', '/live')).body.id, id);
  const garbage = await follow(user.token, { 'last-event-id': 'x' });
  t.is(garbage.events[0]?.data.topics.length, 4);
  garbage.close();
});

test('the stream ends with the membership of who listens', async (t) => {
  const { project, user, follow } = await setUp();
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const source = await follow(viewer.token);
  const member = await memberIdOf(platform(), project.orgId, viewer.id);
  const removed = await platform().client.call('DELETE', `/team/members/${member}`, {
    token: user.token,
    headers: { 'x-org-id': project.orgId },
  });
  t.is(removed.status, 204);
  await source.end;
  t.is((await follow(viewer.token)).status, 404);
});

test('a project has no more than so many listeners at a time', async (t) => {
  const { follow } = await setUp();
  const all = await Promise.all(Array.from({ length: 51 }, () => follow()));
  t.is(all.filter(({ status }) => status === 200).length, 50);
  t.is(all.filter(({ status }) => status === 429).length, 1);
  for (const source of all) source.close();
});
