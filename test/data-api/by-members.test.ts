import test from 'ava';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';
import type { Answer, CallOptions } from '#test/support/client.ts';
import { createRestProject } from './rest-project.ts';

const platform = usePlatform(test);

const schema = `
  create table notes (id int primary key, owner uuid, text text);
  alter table notes enable row level security;
  create policy own on notes to authenticated using (owner = auth.uid()) with check (owner = auth.uid());
  create policy shown on notes for select to anon using (owner is null);
  insert into notes values (1, null, 'for all');
`;

const scene = async () => {
  const { client } = platform();
  const s = await createRestProject(platform(), schema);
  const ask = (method: string, path: string, options: CallOptions = {}): Promise<Answer> =>
    client.call(method, `/projects/${s.project.id}/rest/v1${path}`, { token: s.user.token, ...options });
  const idsAs = async (as: string): Promise<number[]> => {
    const { body } = await ask('GET', '/notes?select=id&order=id', { headers: { 'x-plinth-as': as } });
    return (body as { id: number }[]).map(({ id }) => id);
  };
  return { ...s, client, ask, idsAs };
};

test('a member reads and writes rows in the whole dialect, with counts', async (t) => {
  const { ask } = await scene();
  const made = await ask('POST', '/notes', {
    body: [
      { id: 2, text: 'a' },
      { id: 3, text: 'b' },
    ],
    headers: { prefer: 'return=representation' },
  });
  t.is(made.status, 201, made.text);
  const page = await ask('GET', '/notes?select=id&or=(id.eq.2,text.like.f*)&order=id.desc&limit=1', {
    headers: { prefer: 'count=exact' },
  });
  t.deepEqual([page.status, page.body, page.headers.get('content-range')], [206, [{ id: 2 }], '0-0/2']);
  t.is((await ask('PATCH', '/notes?id=eq.3', { body: { text: 'c' } })).status, 204);
  t.is((await ask('DELETE', '/notes?id=eq.3')).status, 204);
  t.deepEqual((await ask('GET', '/nothing')).body.code, 'PGRST205');
});

test('a member looks through the eyes of anon and of a user', async (t) => {
  const { ask, idsAs, client, project } = await scene();
  const signUp = await client.call('POST', `/p/${project.ref}/auth/v1/signup`, {
    key: project.publishableKey,
    body: { email: 'ada@example.org', password: 'correct horse battery' },
  });
  const id = String(signUp.body.user?.id ?? signUp.body.id);
  await ask('POST', '/notes', { body: { id: 2, owner: id, text: 'mine' } });
  t.deepEqual(await idsAs('service'), [1, 2]);
  t.deepEqual(await idsAs('anon'), [1]);
  t.deepEqual(await idsAs(`authenticated:${id}`), [2]);
  const refused = await ask('POST', '/notes', {
    body: { id: 3, owner: null, text: 'x' },
    headers: { 'x-plinth-as': `authenticated:${id}` },
  });
  t.is(refused.body.code, '42501');
  const unknown = { headers: { 'x-plinth-as': 'authenticated:00000000-0000-7000-8000-000000000000' } };
  t.is((await ask('GET', '/notes', unknown)).status, 404);
  for (const as of ['postgres', 'authenticated:1', 'service_role', 'anon;'])
    t.is((await ask('GET', '/notes', { headers: { 'x-plinth-as': as } })).status, 400, as);
});

test('a viewer reads and does not write, others learn nothing, and keys are not taken', async (t) => {
  const { client, ask, project } = await scene();
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  t.is((await ask('GET', '/notes', { token: viewer.token })).status, 200);
  t.is((await ask('POST', '/notes', { token: viewer.token, body: { id: 9 } })).status, 403);
  t.is((await ask('POST', '/rpc/anything', { token: viewer.token, body: {} })).status, 403);
  const stranger = await client.signUp();
  t.is((await ask('GET', '/notes', { token: stranger.token })).status, 404);
  t.is((await client.call('GET', `/projects/${project.id}/rest/v1/notes`, { key: project.key })).status, 401);
});
