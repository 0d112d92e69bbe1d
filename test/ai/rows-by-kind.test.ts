import test, { type ExecutionContext } from 'ava';
import { type AiProject, createAiProject } from '#test/support/ai-project.ts';
import { type AiUpstream, aiUpstreamFor } from '#test/support/ai-upstream.ts';
import type { Answer } from '#test/support/client.ts';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { saying } from './chat-scene.ts';

const platform = usePlatform(test, { shared: true });

const embedder = 'openai/text-embedding-3-small';
/** The played provider's own number of dimensions. */
const dimensions = 8;

interface Scene extends AiProject {
  readonly upstream: AiUpstream;
  /** Posts below `/projects/{id}/ai`. */
  readonly post: (rest: string, body: unknown) => Promise<Answer>;
}

/** A project of the test's own, in whose usage nothing else is. */
const createScene = async (t: ExecutionContext): Promise<Scene> => {
  const upstream = await aiUpstreamFor(t);
  const of = await createAiProject(platform(), upstream);
  const post: Scene['post'] = (rest, body) =>
    platform().client.call('POST', `${of.path}/ai${rest}`, { token: of.user.token, body });
  return { ...of, upstream, post };
};

interface Row {
  readonly id: string;
  readonly kind: string;
  readonly model: string;
  readonly status: string;
  readonly request_id: string;
}

const shown = ({ kind, model, status, request_id: requestId }: Row) => [kind, model, status, requestId] as const;

/**
 * The rows of the project's calls, from the table, once all have ended; the usage lists the same.
 * @param answers what was asked: each row names the request that it belongs to
 */
const hasRows = async (
  t: ExecutionContext,
  { project, path, user, upstream }: Scene,
  expected: readonly (readonly [kind: string, model: string, status: string, answer: Answer])[],
): Promise<void> => {
  const rows = await until(async () => {
    const found = await platform().db.query<Row>(
      'select id, kind, model, status, request_id from ai_calls where project_id = $1 order by id',
      [project.id],
    );
    return found.length >= expected.length && found.every(({ status }) => status !== 'open') && found;
  });
  t.deepEqual(
    rows.map(shown),
    expected.map(([kind, model, status, { headers }]) => [kind, model, status, headers.get('x-request-id') ?? '']),
  );
  const { body: usage } = await platform().client.call('GET', `${path}/ai/usage`, { token: user.token });
  t.deepEqual(usage.recent_logs.toReversed().map(shown), rows.map(shown));
  t.is(usage.total_requests, expected.length);
  // Lists of models are no calls.
  t.is(upstream.requests.filter(({ kind }) => kind !== 'models').length, expected.length);
};

test('a chat, a stream and embeddings leave one row each, whichever surface they come by', async (t) => {
  const scene = await createScene(t);
  const byKey = (whole: string, body: unknown) =>
    platform().client.call('POST', whole, { key: scene.project.key, body });
  const input = { model: embedder, input: ['alpha', 'beta'] };
  const answers: (readonly [kind: string, model: string, answer: Answer])[] = [
    ['chat', 'gpt-4o', await scene.post('/chat', saying('one'))],
    ['chat', 'gpt-4o', await byKey('/api/ai/chat', saying('two'))],
    ['chat', 'gpt-4o', await byKey('/v1/chat/completions', saying('three'))],
    ['stream', 'gpt-4o', await scene.post('/chat/stream', saying('four'))],
    ['stream', 'gpt-4o', await byKey('/api/ai/chat/stream', saying('five'))],
    ['stream', 'gpt-4o', await byKey('/v1/chat/completions', saying('six', { stream: true }))],
    ['embeddings', 'text-embedding-3-small', await scene.post('/embeddings', input)],
    ['embeddings', 'text-embedding-3-small', await byKey('/v1/embeddings', input)],
  ];
  for (const [kind, , { status, text }] of answers) t.is(status, 200, `${kind}: ${text}`);
  await hasRows(
    t,
    scene,
    answers.map(([kind, model, answer]) => [kind, model, 'success', answer]),
  );
});

test('embeddings leave a row with what the provider counted and what that costs', async (t) => {
  const scene = await createScene(t);
  const { body } = await scene.post('/embeddings', { model: embedder, input: ['alpha', 'beta'] });
  t.deepEqual(body.usage, { prompt_tokens: 6 });
  const usage = await platform().client.call('GET', `${scene.path}/ai/usage`, { token: scene.user.token });
  const [row] = usage.body.recent_logs;
  t.like(row, { kind: 'embeddings', provider: 'openai', prompt_tokens: 6, completion_tokens: 0, ttft_ms: null });
  t.is(row.tokens_source, 'reported');
  t.true(row.cost_nano_usd > 0);
});

const table = JSON.stringify({ sql: 'create table likes (id int)', tables: ['likes'], explanation: 'Likes.' });
const policy = JSON.stringify({ sql: 'create policy p on likes using (true)', policies: ['p'], explanation: 'All.' });
const query = JSON.stringify({ sql: 'select 1', explanation: 'One.' });

/** Has the model say these texts, one after the other. */
const says = ({ upstream }: Scene, ...texts: string[]): void =>
  upstream.answerWith(({ kind }) => (kind === 'chat' ? { text: texts.shift() ?? 'nothing more' } : undefined));

test('each generator leaves one row for its answer', async (t) => {
  const scene = await createScene(t);
  says(scene, table, policy, query);
  const requested = { prompt: 'Likes, please.', model: 'openai/gpt-4o' };
  const answers: Answer[] = [];
  for (const name of ['schema', 'rls', 'sql']) answers.push(await scene.post(`/${name}/generate`, requested));
  for (const { status, text } of answers) t.is(status, 200, text);
  await hasRows(
    t,
    scene,
    answers.map((answer) => ['generate', 'gpt-4o', 'success', answer]),
  );
});

test('an answer that a generator has put right leaves a row for each of the two times', async (t) => {
  const scene = await createScene(t);
  says(scene, 'I would rather not.', table);
  const answer = await scene.post('/schema/generate', { prompt: 'Likes, please.', model: 'openai/gpt-4o' });
  t.is(answer.status, 200, answer.text);
  t.deepEqual(answer.body.tables, ['likes']);
  const row = ['generate', 'gpt-4o', 'success', answer] as const;
  await hasRows(t, scene, [row, row]);
});

test('a generator that gives up after the second unusable answer has left two rows, and no third', async (t) => {
  const scene = await createScene(t);
  says(scene, 'No.', 'No again.', table);
  const answer = await scene.post('/schema/generate', { prompt: 'Likes, please.', model: 'openai/gpt-4o' });
  t.deepEqual([answer.status, answer.body.code], [502, 'provider_bad_output']);
  const row = ['generate', 'gpt-4o', 'success', answer] as const;
  await hasRows(t, scene, [row, row]);
});

test('a generator whose provider refuses leaves one row with the error', async (t) => {
  const scene = await createScene(t);
  scene.upstream.answerWith(() => ({ status: 400, message: 'No.' }));
  const answer = await scene.post('/schema/generate', { prompt: 'Likes, please.', model: 'openai/gpt-4o' });
  t.is(answer.body.code, 'provider_rejected');
  await hasRows(t, scene, [['generate', 'gpt-4o', 'error', answer]]);
});

const vectorsUrl = '/vectors/collections';

const createCollection = async ({ post }: Scene, name: string): Promise<void> => {
  const answer = await post(vectorsUrl, { name, dimensions });
  if (answer.status !== 201) throw new Error(`creating a collection answered ${answer.status}: ${answer.text}`);
};

const documents = (count: number) => Array.from({ length: count }, (_, at) => ({ id: `${at}`, content: `text ${at}` }));

test('a vector upsert leaves a row for its texts, a search one for its query, and what needs no provider none', async (t) => {
  const scene = await createScene(t);
  const { post } = scene;
  await createCollection(scene, 'notes');
  const upsert = (count: number) =>
    post(`${vectorsUrl}/notes/upsert`, { model: embedder, documents: documents(count) });
  const search = () => post(`${vectorsUrl}/notes/search`, { query: 'text 1' });
  const embedded = 'text-embedding-3-small';

  // In an empty collection nothing is looked for.
  t.deepEqual((await search()).body.results, []);
  await hasRows(t, scene, []);
  const written = await upsert(3);
  t.is(written.body.upserted, 3, written.text);
  await hasRows(t, scene, [['vectors', embedded, 'success', written]]);
  const again = await upsert(3);
  t.is(again.body.unchanged, 3, again.text);
  const found = await search();
  t.is(found.body.results.length, 3, found.text);
  await hasRows(t, scene, [
    ['vectors', embedded, 'success', written],
    ['vectors', embedded, 'success', found],
  ]);
});

test('a vector upsert of more texts than go out at once leaves a row for each part', async (t) => {
  const scene = await createScene(t);
  await createCollection(scene, 'many');
  const written = await scene.post(`${vectorsUrl}/many/upsert`, { model: embedder, documents: documents(97) });
  t.is(written.body.upserted, 97, written.text);
  const row = ['vectors', 'text-embedding-3-small', 'success', written] as const;
  await hasRows(t, scene, [row, row]);
});

test('a vector upsert whose provider refuses leaves one row with the error', async (t) => {
  const scene = await createScene(t);
  await createCollection(scene, 'refused');
  scene.upstream.answerWith(({ kind }) => (kind === 'embeddings' ? { status: 400, message: 'No.' } : undefined));
  const answer = await scene.post(`${vectorsUrl}/refused/upsert`, { model: embedder, documents: documents(1) });
  t.is(answer.body.code, 'provider_rejected');
  await hasRows(t, scene, [['vectors', 'text-embedding-3-small', 'error', answer]]);
});

test('what a hard budget has no room for leaves no row: generators, the assistant, a search and an upsert', async (t) => {
  const scene = await createScene(t);
  const call = (method: string, rest: string, body: unknown) =>
    platform().client.call(method, `${scene.path}${rest}`, { token: scene.user.token, body });
  const setBudget = async (monthly_usd: number): Promise<void> => {
    t.is((await call('PUT', '/ai/budget', { monthly_usd, hard: true })).status, 200);
  };
  // Hard from the beginning: each process has read it so before there is no room any more.
  await setBudget(1);
  await createCollection(scene, 'full');
  const url = `${vectorsUrl}/full`;
  const written = await scene.post(`${url}/upsert`, { model: embedder, documents: documents(1) });
  const before = [['vectors', 'text-embedding-3-small', 'success', written]] as const;
  await hasRows(t, scene, before);
  await setBudget(0);
  const requested = { prompt: 'Likes, please.', model: 'openai/gpt-4o' };
  for (const answer of [
    await scene.post('/schema/generate', requested),
    await scene.post('/rls/generate', requested),
    await scene.post('/sql/generate', requested),
    await call('POST', '/zy/chat', { message: 'What tables are there?', model: 'openai/gpt-4o' }),
    await scene.post(`${url}/search`, { query: 'text 0' }),
    await scene.post(`${url}/upsert`, { model: embedder, documents: documents(2) }),
  ]) {
    isError(t, answer, 429, 'budget_exceeded');
    t.regex(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
  }
  await hasRows(t, scene, before);
});
