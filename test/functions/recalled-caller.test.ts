import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { hashToken } from '#lib/ids.ts';
import { type Answer, type CallOptions, type TestUser, createClient } from '#test/support/client.ts';
import { addMember } from '#test/support/members.ts';
import { useJobsApi } from '#test/jobs/scene.ts';

const cap = 30;

const { scene, platform } = useJobsApi(test, { settings: { PLINTH_MONTHLY_CAP_FREE: String(cap) } });

const body = { payload: null };

/** A function that a developer has called through two API processes, which remember them now. */
const rememberedByBoth = async () => {
  const opened = await scene('exports.handler = () => 1');
  const { project, fn } = opened;
  const developer = await addMember(platform(), project.orgId, 'developer');
  const clients = [platform().client, createClient(await platform().startApi())];
  const path = `/projects/${project.id}/functions/${fn.id}/invoke`;
  const call = (options: CallOptions = {}, at = path) =>
    Promise.all(clients.map((each) => each.call('POST', at, { token: developer.token, body, ...options })));
  const runs = async (): Promise<number> => {
    const [row] = await platform().db.query<{ n: number }>(
      'select count(*)::int as n from jobs where project_id = $1',
      [project.id],
    );
    return row?.n ?? 0;
  };
  for (const answer of await call()) if (answer.status !== 200) throw new Error(answer.text);
  return { ...opened, developer, call, runs, path };
};

const logOut = ({ token }: TestUser): Promise<Answer> =>
  platform().client.call('POST', '/auth/logout', { token, body: {} });

const change = (sql: string, values: unknown[]) =>
  platform().db.transaction((tx) => tx.query(sql, values), systemActor);

const setRole = (orgId: string, userId: string, role: string) =>
  change('update members set role = $3 where org_id = $1 and user_id = $2', [orgId, userId, role]);

test('a sign-in that has ended is refused at once by every API process, and nothing is run', async (t) => {
  const { developer, call, runs } = await rememberedByBoth();
  const before = await runs();
  await logOut(developer);
  for (const answer of await call()) {
    t.is(answer.status, 401);
    t.is(answer.body.code, 'unauthenticated');
  }
  t.is(await runs(), before);
});

test('an access token that has expired is refused at once', async (t) => {
  const { developer, call, runs } = await rememberedByBoth();
  const before = await runs();
  await platform().db.query(`update sign_in_tokens set expires_at = now() where hash = $1`, [
    hashToken(developer.token),
  ]);
  for (const answer of await call()) t.is(answer.status, 401);
  t.is(await runs(), before);
});

test('a member who was removed no longer finds the project', async (t) => {
  const { developer, project, call, runs } = await rememberedByBoth();
  const before = await runs();
  await change('delete from members where user_id = $1 and org_id = $2', [developer.id, project.orgId]);
  for (const answer of await call()) {
    t.is(answer.status, 404);
    t.is(answer.body.message, 'No such project.');
  }
  t.is(await runs(), before);
});

test('a role that was lowered is refused, and one that was raised goes on', async (t) => {
  const { developer, project, call, runs } = await rememberedByBoth();
  await setRole(project.orgId, developer.id, 'admin');
  for (const answer of await call()) t.is(answer.status, 200);
  const before = await runs();
  await setRole(project.orgId, developer.id, 'viewer');
  for (const answer of await call()) t.is(answer.status, 403);
  t.is(await runs(), before);
});

test('a project that was deleted is not found', async (t) => {
  const { ask, call, runs } = await rememberedByBoth();
  const before = await runs();
  t.is((await ask('DELETE', '')).status, 204);
  for (const answer of await call()) t.is(answer.status, 404);
  t.is(await runs(), before);
});

test('the cap of a plan counts from the change of the plan on', async (t) => {
  const { ask, call, project } = await rememberedByBoth();
  await ask('PATCH', '', { body: { plan: 'pro' } });
  await platform().db.query('update job_usage set used = $2 where project_id = $1', [project.id, cap]);
  for (const answer of await call()) t.is(answer.status, 200, 'Pro has a higher cap');
  await ask('PATCH', '', { body: { plan: 'free' } });
  for (const answer of await call()) {
    t.is(answer.status, 429);
    t.is(answer.body.code, 'monthly_cap_exceeded');
  }
});

test('whoever may not call any more gets that refusal, whatever else is wrong with the request', async (t) => {
  const { developer, call, path } = await rememberedByBoth();
  for (const answer of await call({ body: { payload: null, surprise: 1 } })) t.is(answer.status, 400);
  await logOut(developer);
  for (const answer of await call({ body: { payload: null, surprise: 1 } })) t.is(answer.status, 401);
  const unknown = path.replace(/functions\/[^/]+/, `functions/${crypto.randomUUID()}`);
  for (const answer of await call({}, unknown)) t.is(answer.status, 401);
});

test('an answer is not repeated to a sign-in that has ended', async (t) => {
  const { developer, call } = await rememberedByBoth();
  const headers = { 'idempotency-key': 'once' };
  for (const answer of await call({ headers })) t.is(answer.status, 200);
  await logOut(developer);
  for (const answer of await call({ headers })) t.is(answer.status, 401);
});

test('a call without waiting is refused alike', async (t) => {
  const { developer, call, runs } = await rememberedByBoth();
  const before = await runs();
  await logOut(developer);
  for (const answer of await call({ headers: { prefer: 'respond-async' } })) t.is(answer.status, 401);
  t.is(await runs(), before);
});
