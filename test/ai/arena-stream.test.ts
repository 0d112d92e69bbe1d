import test from 'ava';
import { type AiProject, type PostedEvents, createAiProject, postForEvents } from '#test/support/ai-project.ts';
import { type AiUpstream, type UpstreamRequest, startAiUpstream } from '#test/support/ai-upstream.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test, { shared: true });
let upstream: AiUpstream;
let shared: AiProject;
const holds = new Map<string, PromiseWithResolvers<void>>();

/** A model `held-…` says one word and then waits for the test. */
const holdOf = (model: string): PromiseWithResolvers<void> => {
  const hold = holds.get(model) ?? Promise.withResolvers<void>();
  holds.set(model, hold);
  return hold;
};

const behave = ({ model }: UpstreamRequest) => {
  if (model.startsWith('held')) return { text: 'one two', hold: { after: 1, until: holdOf(model).promise } };
  if (model.startsWith('broken')) return { text: 'one two three', break: { after: 2, how: 'clean' } } as const;
  return model.startsWith('odd') ? { status: 400, message: 'The request is odd.' } : undefined;
};

test.before(async () => {
  upstream = await startAiUpstream();
  upstream.answerWith(behave);
  shared = await createAiProject(platform(), upstream);
});
test.after.always(() => {
  for (const hold of holds.values()) hold.resolve();
  upstream?.close();
});

const messages = [{ role: 'user', content: 'Hello to you' }];

const arena = (models: readonly string[], of: AiProject = shared): Promise<PostedEvents> =>
  postForEvents(`${platform().base}${of.path}/ai/arena`, of.user.token, { messages, models });

const chunksOf = ({ events }: PostedEvents, index: number): string =>
  events
    .filter((event) => event.index === index && event.chunk !== undefined)
    .map(({ chunk }) => chunk)
    .join('');

const endOf = ({ events }: PostedEvents, index: number) => events.find((event) => event.index === index && event.done);

test('each model streams beside the other, says how it ended, and the last event ends all', async (t) => {
  const source = await arena(['openai/a', 'anthropic/b']);
  t.is(source.status, 200);
  t.regex(source.headers.get('content-type') ?? '', /^text\/event-stream/);
  t.is(source.headers.get('cache-control'), 'no-store');
  await source.end;
  t.is(chunksOf(source, 0), 'You said: Hello to you');
  t.is(chunksOf(source, 1), 'You said: Hello to you');
  const { latency_ms, ...end } = endOf(source, 1);
  t.true(Number.isInteger(latency_ms));
  t.is(end.provider, 'anthropic');
  t.is(end.model, 'anthropic/b');
  t.true(end.tokens.prompt > 0 && end.tokens.completion > 0);
  t.deepEqual(source.events.at(-1), { done: true });
});

test('a model that takes its time holds up no other', async (t) => {
  const source = await arena(['openai/held-1', 'anthropic/quick']);
  await until(() => endOf(source, 1));
  t.is(endOf(source, 0), undefined);
  holdOf('held-1').resolve();
  await source.end;
  t.is(chunksOf(source, 0), 'one two');
});

test('the same model twice is told apart by its place', async (t) => {
  const source = await arena(['openai/same', 'openai/same']);
  await source.end;
  t.is(chunksOf(source, 0), 'You said: Hello to you');
  t.is(chunksOf(source, 1), 'You said: Hello to you');
});

test('a model that fails before its first word is an event, and the others go on', async (t) => {
  const source = await arena(['openai/odd', 'groq/none', 'openai/fine']);
  await source.end;
  t.is(endOf(source, 0).error.code, 'provider_rejected');
  t.is(endOf(source, 1).error.code, 'provider_not_configured');
  t.is(endOf(source, 1).provider, 'groq');
  t.is(chunksOf(source, 2), 'You said: Hello to you');
  t.is(endOf(source, 2).error, undefined);
});

test('a stream that ends without its end marker is an error, never a success', async (t) => {
  const source = await arena(['openai/broken', 'openai/fine']);
  await source.end;
  t.is(chunksOf(source, 0), 'one two ');
  t.regex(endOf(source, 0).error.code, /^provider_/);
  t.is(endOf(source, 0).tokens, undefined);
});

test('when all fail before the first word the answer is 502 with the entries', async (t) => {
  const source = await arena(['openai/odd', 'groq/none']);
  await source.end;
  t.is(source.status, 502);
  const [body] = source.events;
  t.is(body.code, 'provider_unavailable');
  t.deepEqual(
    body.details.map((one: { error: { code: string } }) => one.error.code),
    ['provider_rejected', 'provider_not_configured'],
  );
});

test('when the client leaves, every upstream is closed', async (t) => {
  const source = await arena(['openai/held-gone', 'anthropic/held-gone']);
  await until(() => source.events.filter(({ chunk }) => chunk !== undefined).length === 2);
  source.close();
  const requested = upstream.requests.filter(({ model }) => model === 'held-gone');
  t.is(requested.length, 2);
  for (const request of requested) await until(() => request.closedAt !== null);
  t.pass();
});

/** A search of a collection that is there; its text is embedded. */
const searchIn = async ({ user, path }: AiProject) => {
  const collections = `${path}/ai/vectors/collections`;
  const { client } = platform();
  const named = { name: 'words', dimensions: 8 };
  // In a new clone pgvector is fetched while the first tests run.
  const created = await until(async () => {
    const answer = await client.call('POST', collections, { token: user.token, body: named });
    return answer.status !== 501 && answer;
  });
  const body = { documents: [{ content: 'one' }], model: 'text-embedding-3-small' };
  const written = await client.call('POST', `${collections}/words/upsert`, { token: user.token, body });
  if (created.status !== 201 || written.status !== 200) throw new Error(`${created.text} ${written.text}`);
  return () => client.call('POST', `${collections}/words/search`, { token: user.token, body: { query: 'one' } });
};

test('each model counts among the calls that a project may have under way, and so does a search', async (t) => {
  const of = await createAiProject(platform(), upstream);
  const search = await searchIn(of);
  t.is((await search()).status, 200);
  const models = ['openai/held-many', 'openai/held-many', 'openai/held-many', 'openai/held-many'];
  const sources = await Promise.all(Array.from({ length: 5 }, () => arena(models, of)));
  t.deepEqual(
    sources.map(({ status }) => status),
    [200, 200, 200, 200, 200],
  );
  for (const { events } of sources) await until(() => events.filter(({ chunk }) => chunk !== undefined).length === 4);
  const refused = await arena(['openai/a', 'openai/b'], of);
  await refused.end;
  t.is(refused.status, 429);
  t.is(refused.headers.get('retry-after'), '1');
  t.is(refused.events[0].code, 'too_many_calls');
  t.is(refused.events[0].details[0].error.code, 'too_many_calls');
  const unsearched = await search();
  t.is(unsearched.status, 429);
  t.is(unsearched.body.code, 'too_many_calls');
  holdOf('held-many').resolve();
  await Promise.all(sources.map(({ end }) => end));
});
