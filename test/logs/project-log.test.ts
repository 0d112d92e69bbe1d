import test from 'ava';
import { createCallLog } from '#domain/ai/usage/call-log.ts';
import { createProjectLog, deleteOldLines, maxRows } from '#domain/logs/project-log.ts';
import type { Queryable } from '#lib/control-db.ts';
import { firstIdAt } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import { lineSources } from '#queues/signals.ts';
import { createScene, saying } from '#test/ai/chat-scene.ts';
import { madeEnd, madeIntent, silent } from '#test/ai/usage-scene.ts';
import type { Answer } from '#test/support/client.ts';
import { isError } from '#test/support/is-error.ts';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';
import { listen } from '#test/support/sse.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test);

const rows = lineSources.join(',');

interface Line {
  readonly id: string;
  readonly source: string;
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly request_id: string | null;
}

const scene = async () => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user, { plan: 'enterprise' });
  const ask = (method: string, path: string, body?: unknown): Promise<Answer> =>
    client.call(method, `/projects/${project.id}${path}`, { token: user.token, ...(body !== undefined && { body }) });
  const byKey = (method: string, path: string, body?: unknown): Promise<Answer> =>
    client.call(method, path, { key: project.key, ...(body !== undefined && { body }) });
  const find = async (query: string): Promise<Line[]> => {
    const { status, body, text } = await ask('GET', `/logs?${query}`);
    if (status !== 200) throw new Error(text);
    return body.logs as Line[];
  };
  const auth = (path: string, body: unknown): Promise<Answer> =>
    byKey('POST', `/p/${project.ref}/auth/v1${path}`, body);
  return { user, project, ask, byKey, find, auth };
};

const requestOf = (answer: Answer): string => answer.headers.get('x-request-id') ?? '';

const log = { warn: () => undefined } as unknown as Log;
const nobodyListens = { announceLines: () => undefined };

test('the id in an error of any surface finds its line', async (t) => {
  const { project, ask, byKey, find, auth } = await scene();
  const failures: readonly (readonly [source: string, level: string, code: string | RegExp, answer: Answer])[] = [
    ['data', 'warn', /^(?:PGRST|42P01)/, await byKey('GET', '/v1/rest/nothing')],
    ['storage', 'warn', /./, await byKey('GET', `/p/${project.ref}/storage/v1/object/none/a%20b.txt`)],
    [
      'auth',
      'warn',
      'invalid_credentials',
      await auth('/token?grant_type=password', { email: 'a@b.example', password: 'wrong' }),
    ],
    ['ai', 'warn', /./, await byKey('POST', '/api/ai/chat', saying('x'))],
    ['api', 'warn', 'not_found', await ask('GET', `/jobs/${crypto.randomUUID()}`)],
  ];
  for (const [source, level, code, answer] of failures) {
    t.true(answer.status >= 400, `${source}: ${answer.text}`);
    const [line, ...others] = await until(async () => {
      const found = await find(`source=${rows}&request_id=${requestOf(answer)}`);
      return found.length > 0 && found;
    });
    t.deepEqual(others, []);
    t.like(line, { source, level, request_id: requestOf(answer) });
    t.regex(String(line?.fields['code']), code instanceof RegExp ? code : new RegExp(`^${code}$`));
    t.regex(line?.message ?? '', new RegExp(` ${answer.status}: `));
  }
  t.notRegex(JSON.stringify(await find(`source=${rows}`)), /hidden words|a@b/);
  t.deepEqual(await find('source=data&level=error'), []);
  t.is((await find('source=data,storage&level=warn')).length, 2);
  t.is((await find(`source=${rows}&q=A%2520B.txt`)).length, 1);
});

test('sign-ups and sign-ins are lines with the user, going on is none, and no line has a secret', async (t) => {
  const { find, auth } = await scene();
  const password = 'a long and secret word';
  const made = await auth('/signup', { email: 'ada@example.com', password });
  t.is(made.status, 200, made.text);
  const wrong = await auth('/token?grant_type=password', { email: 'ada@example.com', password: 'something else' });
  const right = await auth('/token?grant_type=password', { email: 'ada@example.com', password });
  t.is(right.status, 200, right.text);
  await auth('/token?grant_type=refresh_token', { refresh_token: right.body.refresh_token });
  const found = await until(async () => {
    const lines = await find('source=auth');
    return lines.length >= 3 && lines;
  });
  t.deepEqual(
    found.map(({ level, request_id: id }) => [level, id]),
    [
      ['info', requestOf(right)],
      ['warn', requestOf(wrong)],
      ['info', requestOf(made)],
    ],
  );
  t.is(found[0]?.fields['user_id'], right.body.user.id);
  const text = JSON.stringify(found);
  for (const secret of [password, 'something else', right.body.refresh_token, right.body.access_token])
    t.false(text.includes(String(secret)));
});

test('mails and calls of models are lines, which lead to them', async (t) => {
  const { project, ask, find } = await scene();
  const { db } = platform();
  const sent = await ask('POST', '/email/templates/signup/send-test', { email: 'ada@example.com' });
  t.is(sent.status, 200, sent.text);
  const [mail] = await find('source=mail');
  t.like(mail, { message: 'signup to ada@example.com kept', level: 'warn', request_id: requestOf(sent) });
  t.is((await find(`source=mail&request_id=${requestOf(sent)}`)).length, 1);
  t.deepEqual(await find('source=mail&level=error,info'), []);
  const calls = createCallLog({ db, log: silent });
  const failed = madeIntent(project.id, { requestId: 'of-a-model', model: '50%_off' });
  calls.begin(failed).end(madeEnd({ status: 'error', errorCode: 'provider_timeout', errorMessage: 'too <b>late</b>' }));
  calls.begin(madeIntent(project.id)).end(madeEnd());
  await calls.settled();
  const underWay = calls.begin(madeIntent(project.id));
  await underWay.recorded;
  t.deepEqual(
    (await find('source=ai')).map(({ level, message }) => `${level} ${message}`),
    ['info chat by openai/gpt-4o-mini success', 'error chat by openai/50%_off error: too <b>late</b>'],
  );
  underWay.end(madeEnd());
  t.is((await find('source=ai&q=50%25_OFF'))[0]?.id, failed.id);
  t.deepEqual(await find('source=ai&q=50%25%25off'), []);
  t.is((await find('source=ai,mail&request_id=of-a-model')).length, 1);
});

test('pages of all sources follow each other without a gap or a repetition while lines come', async (t) => {
  const { project, ask, byKey, find } = await scene();
  const calls = createCallLog({ db: platform().db, log: silent });
  for (let made = 0; made < 4; made += 1) {
    await byKey('GET', `/v1/rest/nothing_${made}`);
    calls.begin(madeIntent(project.id)).end(madeEnd());
    await ask('POST', '/email/templates/signup/send-test', { email: `${made}@example.com` });
  }
  await calls.settled();
  const expected = await until(async () => {
    const lines = await find(`source=${rows}`);
    return lines.length === 12 && lines.map(({ id }) => id);
  });
  for (const filter of ['', '&level=debug,info,warn,error']) {
    const seen: string[] = [];
    let next: string | null = '';
    while (next !== null) {
      const cursor = next === '' ? '' : `&cursor=${next}`;
      const { body } = await ask('GET', `/logs?source=${rows}&limit=5${filter}${cursor}`);
      seen.push(...body.logs.map(({ id }: Line) => id));
      ({ next } = body);
      await byKey('GET', '/v1/rest/later');
      calls.begin(madeIntent(project.id)).end(madeEnd());
      await calls.settled();
    }
    t.deepEqual(
      seen.filter((id) => expected.includes(id)),
      expected,
    );
    t.is(new Set(seen).size, seen.length);
  }
});

test('who listens hears the lines of the sources that it named, and after a break what came meanwhile', async (t) => {
  const { user, project, ask, byKey } = await scene();
  const follow = (query: string, headers = {}) =>
    listen(`${platform().base}/projects/${project.id}/logs?${query}`, user.token, {
      accept: 'text/event-stream',
      ...headers,
    });
  const [all, mails] = await Promise.all([follow(`source=${rows}`), follow('source=mail')]);
  const bad = await byKey('GET', '/v1/rest/nothing');
  await until(() => all.events.length === 1);
  t.like(all.events[0], { event: 'log', data: { source: 'data', level: 'warn', request_id: requestOf(bad) } });
  await ask('POST', '/email/templates/signup/send-test', { email: 'ada@example.com' });
  await until(() => mails.events.length === 1 && all.events.length === 2);
  t.like(mails.events[0], { data: { source: 'mail', message: 'signup to ada@example.com kept' } });
  all.close();
  mails.close();
  const missed = await byKey('GET', '/v1/rest/missed');
  await until(
    async () => (await ask('GET', `/logs?source=data&request_id=${requestOf(missed)}`)).body.logs.length === 1,
  );
  const again = await follow('source=data', { 'last-event-id': String(Date.parse(String(all.events[0]?.data.ts))) });
  await until(() => again.events.some(({ data }) => data.request_id === requestOf(missed)));
  again.close();
  for (const source of ['job', 'webhook', 'mail,job'])
    t.is((await ask('GET', `/logs?source=${source}`)).status === 200, source !== 'mail,job');
  t.is((await follow('source=job')).status, 400);
});

test('calls of models are heard as they end', async (t) => {
  const made = await createScene(platform());
  t.teardown(() => made.upstream.close());
  const { user, project } = made;
  const url = `${platform().base}/projects/${project.id}/logs?source=ai`;
  const source = await listen(url, user.token, { accept: 'text/event-stream' });
  await platform().client.call('POST', '/api/ai/chat', { key: project.key, body: saying('x') });
  await until(() => source.events.length === 1);
  t.like(source.events[0], { data: { message: 'chat by openai/gpt-4o success' } });
  source.close();
});

test('nobody reads the lines of another project, and a viewer reads those of the own', async (t) => {
  const [one, other] = [await scene(), await scene()];
  const { client } = platform();
  const bad = await one.byKey('GET', '/v1/rest/nothing');
  await until(async () => (await one.find('source=data')).length === 1);
  t.deepEqual(await other.find(`source=${rows}&request_id=${requestOf(bad)}`), []);
  const at = `/projects/${one.project.id}/logs?source=${rows}`;
  isError(t, await client.call('GET', at, { token: other.user.token }), 404, 'not_found');
  const url = `${platform().base}${at}`;
  t.is((await listen(url, other.user.token, { accept: 'text/event-stream' })).status, 404);
  const viewer = await addMember(platform(), one.project.orgId, 'viewer');
  t.is((await client.call('GET', at, { token: viewer.token })).body.logs.length, 1);
});

test('what a project can write is bounded: lines of a minute, their length, and rows', async (t) => {
  const { project } = await scene();
  const { db } = platform();
  const own = createProjectLog({ db, signals: nobodyListens, log });
  const hostile = `a\0b\n\u202E\ud800<b>${'x'.repeat(5000)}`;
  const request = {
    projectId: project.id,
    source: 'data',
    level: 'warn',
    message: hostile,
    fields: { much: 'y'.repeat(5000) },
    requestId: 'r',
  } as const;
  for (let noted = 0; noted < 2000; noted += 1) own.note(request);
  // Lines of a project that is gone hold up no others.
  own.note({ ...request, projectId: crypto.randomUUID() });
  await own.stop();
  const count = async () =>
    (
      await db.query<{ count: number }>('select count(*)::int from project_log_lines where project_id = $1', [
        project.id,
      ])
    )[0]?.count ?? 0;
  const written = await count();
  // A minute may end while they are noted.
  t.true(written === 300 || (written > 300 && written <= 601), String(written));
  const [line] = await db.query<{ message: string; fields: string }>(
    'select message, fields from project_log_lines where project_id = $1 order by id limit 1',
    [project.id],
  );
  t.true((line?.message.length ?? 0) <= 501);
  t.true((line?.fields.length ?? 0) <= 1000);
  await db.query(
    `insert into project_log_lines (id, project_id, source, level, message, fields, created_at)
     select (substr($2, 1, 19) || substr(gen_random_uuid()::text, 20))::uuid, $1, 'api', 'warn', 'old', '{}', now()
     from generate_series(1, ${maxRows + 500})`,
    [project.id, firstIdAt(Date.now() - 60_000)],
  );
  const later = createProjectLog({ db, signals: nobodyListens, log });
  later.note(request);
  await later.stop();
  t.is(await count(), maxRows);
});

// Before the others: it deletes lines of all projects.
test.serial('lines that PostgreSQL does not take wait, and none comes twice; old ones go', async (t) => {
  const { project } = await scene();
  const { db } = platform();
  let isLost = true;
  const losing: Queryable = {
    query: async (...args: Parameters<Queryable['query']>) => {
      const found = await db.query(...args);
      if (isLost) throw new Error('the connection was lost');
      return found as never;
    },
  };
  const own = createProjectLog({ db: losing, signals: nobodyListens, log });
  own.note({ projectId: project.id, source: 'api', level: 'error', message: 'x', fields: {}, requestId: 'r' });
  await own.flush();
  isLost = false;
  await own.flush();
  await own.stop();
  const ids = (): Promise<unknown[]> =>
    db.query('select id from project_log_lines where project_id = $1', [project.id]);
  t.is((await ids()).length, 1);
  await deleteOldLines(db, 1000);
  t.is((await ids()).length, 1);
  await deleteOldLines(db, 1000, Date.now() + 8 * 24 * 3_600_000);
  t.is((await ids()).length, 0);
});
