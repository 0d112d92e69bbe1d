import test from 'ava';
import { type ProjectScene, useJobsApi } from '#test/jobs/scene.ts';
import { listen } from '#test/support/sse.ts';
import { until } from '#test/support/until.ts';

const { scene, platform } = useJobsApi(test, { shared: true });

const code = `exports.handler = async (payload, { log }) => {
  for (const [level, message, fields] of payload.lines) log(level, message, fields);
  if (payload.stays) await new Promise(() => {});
}`;

type Given = readonly [level: string, message: string, fields?: object];

/** A run whose end is recorded: its answer may come before that. */
const invoke = async ({ ask, fn }: ProjectScene, lines: readonly Given[], id = fn.id): Promise<string> => {
  const { body } = await ask('POST', `/functions/${id}/invoke`, { body: { payload: { lines } } });
  const at = `/functions/${id}/invocations/${body.invocation_id}`;
  await until(async () => !['queued', 'running'].includes(String((await ask('GET', at)).body.status)));
  return String(body.invocation_id);
};

interface Line {
  readonly message: string;
  readonly invocation_id: string;
  readonly line: number;
  readonly ts: string;
}

const find = async ({ ask }: ProjectScene, query = ''): Promise<{ logs: Line[]; next: string | null }> => {
  const { status, body, text } = await ask('GET', `/logs${query}`);
  if (status !== 200) throw new Error(text);
  return body as never;
};

const messages = ({ logs }: { logs: readonly Line[] }): string[] => logs.map(({ message }) => message);

test('the lines of all functions are found by text, level, function and time, the latest first', async (t) => {
  const one = await scene(code);
  const other = await one.ask('POST', '/functions', { body: { name: 'Other', language: 'javascript', code } });
  const first = await invoke(one, [
    ['info', 'Order "42" paid', { order: 42, note: 'über\nzwei' }],
    ['warn', 'low stock'],
  ]);
  await invoke(one, [], String(other.body.id));
  await invoke(one, [['error', 'no such order']], String(other.body.id));
  const all = await find(one);
  t.deepEqual(messages(all), ['no such order', 'low stock', 'Order "42" paid']);
  t.is(all.next, null);
  const { ts, request_id, ...line } = all.logs[2] as Line & { request_id: string };
  t.regex(ts, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  t.truthy(request_id);
  t.deepEqual(line as object, {
    level: 'info',
    source: 'function',
    message: 'Order "42" paid',
    fields: { order: 42, note: 'über\nzwei' },
    function_id: one.fn.id,
    invocation_id: first,
    line: 1,
  });
  const cases: readonly (readonly [string, readonly string[]])[] = [
    ['?q=ORDER', ['no such order', 'Order "42" paid']],
    [`?q=${encodeURIComponent('"42"')}`, ['Order "42" paid']],
    [`?q=${encodeURIComponent('"order":42')}`, ['Order "42" paid']],
    [`?q=${encodeURIComponent('Über\nzwei')}`, ['Order "42" paid']],
    // Names and times of the stored form are not what is searched.
    ['?q=message', []],
    ['?level=warn', ['low stock']],
    ['?level=warn,error', ['no such order', 'low stock']],
    ['?function=other', ['no such order']],
    [`?function=${one.fn.id}&q=stock`, ['low stock']],
    [`?since=${new Date(Date.now() + 60_000).toISOString()}`, []],
    [`?since=${new Date(Date.now() - 600_000).toISOString()}&level=error`, ['no such order']],
  ];
  for (const [query, expected] of cases) t.deepEqual(messages(await find(one, query)), expected, query);
});

test('pages follow each other without a gap and without a repetition, while new lines come', async (t) => {
  const one = await scene(code);
  for (let run = 0; run < 7; run += 1)
    await invoke(
      one,
      Array.from({ length: 5 }, (_, i) => ['info', `${run}.${i}`]),
    );
  const expected = messages(await find(one));
  t.is(expected.length, 35);
  t.is(expected[0], '6.4');
  const seen: string[] = [];
  let next: string | null = '';
  while (next !== null) {
    const page = await find(one, `?limit=4${next === '' ? '' : `&cursor=${next}`}`);
    seen.push(...messages(page));
    ({ next } = page);
    await invoke(one, [['info', 'later']]);
  }
  t.deepEqual(seen, expected);
});

test('a run that goes on is found with what it has logged so far', async (t) => {
  const one = await scene(code);
  await invoke(one, [['info', 'before']]);
  const id = await one.begin({
    lines: [
      ['info', 'still'],
      ['warn', 'running'],
    ],
    stays: true,
  });
  await until(async () => (await find(one)).logs.length === 3);
  t.deepEqual(messages(await find(one)), ['running', 'still', 'before']);
  t.deepEqual(messages(await find(one, '?level=warn')), ['running']);
  const page = await find(one, '?limit=1');
  t.deepEqual(messages(await find(one, `?limit=9&cursor=${page.next}`)), ['still', 'before']);
  await one.ask('POST', `/jobs/${id}/cancel`);
});

test('what is no query is refused, and nobody finds the logs of others', async (t) => {
  const one = await scene(code);
  await invoke(one, [['info', 'mine']]);
  for (const query of [
    '?level=fatal',
    '?since=yesterday',
    '?limit=0',
    '?limit=1001',
    '?cursor=abc',
    '?function=-',
    '?q=',
  ])
    t.is((await one.ask('GET', `/logs${query}`)).status, 400, query);
  const forged = Buffer.from(JSON.stringify([-1, 'x', 0])).toString('base64url');
  t.is((await one.ask('GET', `/logs?cursor=${forged}`)).status, 400);
  t.is((await one.ask('GET', '/logs?function=nowhere')).status, 404);
  const two = await scene(code);
  t.deepEqual((await find(two)).logs, []);
  t.deepEqual((await find(two, `?function=${one.fn.id}`)).logs, []);
  t.is(
    (await platform().client.call('GET', `/projects/${one.project.id}/logs`, { token: two.user.token })).status,
    404,
  );
  const url = `${platform().base}/projects/${one.project.id}/logs`;
  t.is((await listen(url, two.user.token, { accept: 'text/event-stream' })).status, 404);
});

const follow = ({ project, user }: ProjectScene, query = '', headers = {}) =>
  listen(`${platform().base}/projects/${project.id}/logs${query}`, user.token, {
    accept: 'text/event-stream',
    ...headers,
  });

test('who follows a project hears the lines of all its functions, and after a break what was logged meanwhile', async (t) => {
  const one = await scene(code);
  const other = await one.ask('POST', '/functions', { body: { name: 'Other', language: 'javascript', code } });
  const [all, warnings] = await Promise.all([follow(one), follow(one, '?level=warn')]);
  const first = await invoke(one, [['info', 'a', { b: 1 }]]);
  await invoke(one, [['warn', 'c']], String(other.body.id));
  await until(() => all.events.length === 2 && warnings.events.length === 1);
  t.like(all.events[0], { event: 'log', data: { message: 'a', fields: { b: 1 }, invocation_id: first, line: 1 } });
  t.is(warnings.events[0]?.data.function_id, String(other.body.id));
  all.close();
  warnings.close();
  await invoke(one, [['info', 'missed']]);
  const last = String(Date.parse(String(all.events[1]?.data.ts)));
  const again = await follow(one, '', { 'last-event-id': last });
  await until(() => again.events.some(({ data }) => data.message === 'missed'));
  await invoke(one, [['info', 'new']]);
  await until(() => again.events.some(({ data }) => data.message === 'new'));
  const heard = again.events.map(({ data }) => String(data.message));
  t.is(heard.filter((message) => message === 'missed').length, 1);
  t.true(heard.indexOf('missed') < heard.indexOf('new'));
  again.close();
});

test('a run of thousands of lines is heard by everybody who follows its project, whole and in order', async (t) => {
  const one = await scene(code);
  const followers = await Promise.all(['', '', '', '?q=1'].map((query) => follow(one, query)));
  const lines = Array.from({ length: 3000 }, (_, i): Given => ['info', `${i}`]);
  await invoke(one, lines);
  const expected = (query: string): string[] => lines.map(([, text]) => text).filter((text) => text.includes(query));
  for (const [place, query] of ['', '', '', '1'].entries()) {
    const heard = () => followers[place]?.events.map(({ data }) => String(data.message)) ?? [];
    await until(() => heard().length >= expected(query).length);
    t.deepEqual(heard(), expected(query));
  }
  for (const { close } of followers) close();
});

test('a break with more lines than are replayed is told, and the latest of them come', async (t) => {
  const one = await scene(code);
  const since = new Date(Date.now() - 1000).toISOString();
  await invoke(
    one,
    Array.from({ length: 300 }, (_, i) => ['info', `${i}`]),
  );
  const source = await follow(one, `?since=${since}`);
  await until(() => source.events.at(-1)?.data.message === '299');
  t.is(source.events[0]?.event, 'gap');
  t.is(source.events.length, 201);
  t.is(source.events[1]?.data.ts, source.events[0]?.data.until);
  source.close();
});
