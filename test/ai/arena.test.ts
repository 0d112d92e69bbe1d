import test from 'ava';
import { type AiProject, createAiProject } from '#test/support/ai-project.ts';
import { type AiUpstream, type UpstreamRequest, startAiUpstream } from '#test/support/ai-upstream.ts';
import { usePlatform } from '#test/support/platform.ts';
import { listen } from '#test/support/sse.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test, { shared: true });
let upstream: AiUpstream;
let shared: AiProject;

/** The names of models say what they do. */
const behave = ({ model }: UpstreamRequest) => {
  if (model.startsWith('slow')) return { delayMs: 200, text: 'late' };
  if (model.startsWith('odd')) return { status: 400, message: 'The request is odd.' };
  return model.startsWith('long') ? { text: 'x'.repeat(260_000) } : undefined;
};

test.before(async () => {
  upstream = await startAiUpstream();
  upstream.answerWith(behave);
  shared = await createAiProject(platform(), upstream, {
    openai: 'sk-proj-of-the-test-0001',
    anthropic: 'sk-ant-of-the-test-0002',
    google: 'wrong',
  });
});
test.after.always(() => upstream?.close());

const messages = [{ role: 'user', content: 'Hello' }];

const arena = (body: unknown, headers: Readonly<Record<string, string>> = {}, of: AiProject = shared) =>
  platform().client.call('POST', `${of.path}/ai/arena`, { token: of.user.token, body, headers });

test('models answer side by side, in the order in which they were named', async (t) => {
  const { status, body } = await arena({ messages, models: ['openai/slow-1', 'anthropic/quick'] });
  t.is(status, 200);
  const [slow, quick] = body.results;
  t.is(body.results.length, 2);
  t.deepEqual(
    { ...slow, latency_ms: null },
    {
      model: 'openai/slow-1',
      provider: 'openai',
      content: 'late',
      latency_ms: null,
      tokens: { prompt: 11, completion: 2 },
      error: null,
    },
  );
  t.is(quick.content, 'You said: Hello');
  t.is(quick.provider, 'anthropic');
  t.true(slow.latency_ms >= 200);
  t.true(Number.isInteger(quick.latency_ms));
});

test('what stands beside the models reaches each of them', async (t) => {
  const models = ['openai/with-fields', 'anthropic/with-fields'];
  const system = { role: 'system', content: 'Be brief.' };
  await arena({ messages: [system, ...messages], models, temperature: 0.5, max_tokens: 33 });
  const requested = upstream.requests.filter(({ model }) => model === 'with-fields');
  t.is(requested.length, 2);
  for (const { body } of requested) {
    t.is(body.temperature, 0.5);
    t.true(JSON.stringify(body).includes('Be brief.'));
    t.true(JSON.stringify(body).includes('33'));
  }
});

test('a model that fails is an entry with an error, for each reason', async (t) => {
  const models = ['openai/odd', 'google/any', 'groq/any', 'openai/fine'];
  const { status, body } = await arena({ messages, models });
  t.is(status, 200);
  const reported = body.results.map((one: any) => [one.model, one.provider, one.error?.code ?? null]); // oxlint-disable-line typescript/no-explicit-any
  t.deepEqual(reported, [
    ['openai/odd', 'openai', 'provider_rejected'],
    ['google/any', 'google', 'provider_auth_failed'],
    ['groq/any', 'groq', 'provider_not_configured'],
    ['openai/fine', 'openai', null],
  ]);
  for (const one of body.results.slice(0, 3)) {
    t.is(one.content, null);
    t.is(one.tokens, null);
    t.is(typeof one.error.message, 'string');
  }
  t.false(JSON.stringify(body).includes('wrong'));
});

test('when all models fail the answer is 502 with the entries, and the job has failed with them', async (t) => {
  const { status, body } = await arena({ messages, models: ['openai/odd-1', 'google/any'] });
  t.is(status, 502);
  t.is(body.code, 'provider_unavailable');
  t.deepEqual(
    body.details.map(({ error }: { error: { code: string } }) => error.code),
    ['provider_rejected', 'provider_auth_failed'],
  );
  // Its caller is told before its row is.
  const job = await until(async () => {
    const listed = await platform().client.call('GET', `${shared.path}/jobs?type=ai.arena&status=failed`, {
      token: shared.user.token,
    });
    return listed.body.jobs.find(({ error }: { error: { code: string } }) => error.code === 'provider_unavailable');
  });
  t.is(job.attempt, 1);
});

test('the same model may be named twice: it is asked twice', async (t) => {
  const model = 'openai/twice';
  const { status, body } = await arena({ messages, models: [model, model] });
  t.is(status, 200);
  t.deepEqual(
    body.results.map((one: { model: string }) => one.model),
    [model, model],
  );
  t.is(upstream.requests.filter((request) => request.model === 'twice').length, 2);
});

test('each model of an arena is one call in the usage records', async (t) => {
  const of = await createAiProject(platform(), upstream);
  await arena({ messages, models: ['openai/a', 'anthropic/b', 'openai/odd'] }, {}, of);
  const rows = await until(async () => {
    const found = await platform().db.query<{ kind: string; model: string; status: string }>(
      `select kind, model, status from ai_calls where project_id = $1 and status <> 'open' order by model`,
      [of.project.id],
    );
    return found.length >= 3 && found;
  });
  t.deepEqual(rows, [
    { kind: 'arena', model: 'a', status: 'success' },
    { kind: 'arena', model: 'b', status: 'success' },
    { kind: 'arena', model: 'odd', status: 'error' },
  ]);
});

test('an answer too long for the result of a job is an error of its entry', async (t) => {
  const { body } = await arena({ messages, models: ['openai/long', 'openai/fine'] });
  t.is(body.results[0].error.code, 'result_too_large');
  t.is(body.results[0].content, null);
  t.is(body.results[1].error, null);
});

test('as a job it is accepted with 202, its progress is told, and its result stands in the job', async (t) => {
  const { client, base } = platform();
  const { token } = shared.user;
  const accepted = await arena({ messages, models: ['openai/slow-2', 'openai/fine'] }, { prefer: 'respond-async' });
  t.is(accepted.status, 202);
  const job = accepted.headers.get('location') ?? '';
  const source = await listen(`${base}${job}/events`, token);
  await source.end;
  t.true(source.events.some(({ event, data }) => event === 'progress' && data.progress === 100));
  const { body } = await client.call('GET', job, { token });
  t.is(body.status, 'succeeded');
  t.is(body.type, 'ai.arena');
  t.deepEqual(
    body.result.results.map(({ content }: { content: string }) => content),
    ['late', 'You said: Hello'],
  );
});

const wrong: readonly (readonly [title: string, body: unknown, path: readonly (string | number)[] | string])[] = [
  ['one model', { messages, models: ['openai/a'] }, 'models'],
  ['no models', { messages }, 'models'],
  ['five models', { messages, models: ['a', 'b', 'c', 'd', 'e'] }, 'models'],
  ['models that are no list', { messages, models: 'a,b' }, 'models'],
  ['a model without a name', { messages, models: ['a', ''] }, 'models'],
  ['no messages', { models: ['a', 'b'] }, 'messages'],
  ['an empty list of messages', { messages: [], models: ['a', 'b'] }, 'messages'],
  ['a field that nobody reads', { messages, models: ['a', 'b'], model: 'a' }, 'model'],
  ['a temperature out of range', { messages, models: ['a', 'b'], temperature: 3 }, 'temperature'],
];

for (const [title, body, path] of wrong) {
  test(`refused with 400, as a job and as events: ${title}`, async (t) => {
    for (const accept of ['application/json', 'text/event-stream']) {
      const answer = await arena(body, { accept });
      t.is(answer.status, 400, accept);
      t.is(answer.body.code, 'validation_failed');
      t.true(JSON.stringify(answer.body.details).includes(String(path)));
    }
  });
}
