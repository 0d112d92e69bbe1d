import test, { type ExecutionContext } from 'ava';
import type { DialectName } from '#domain/ai/providers/providers.ts';
import { wires } from '#test/support/ai-upstream-wire.ts';
import type { Answer } from '#test/support/client.ts';
import { useFaultyPlatform } from '#test/support/faulty-platform.ts';
import { serve } from '#test/support/serve.ts';
import { until } from '#test/support/until.ts';
import { type ChatScene, configure, createScene, eventsIn, saying } from './chat-scene.ts';

const platform = useFaultyPlatform(test);

const sceneOf = async (t: ExecutionContext): Promise<ChatScene> => {
  const scene = await createScene(platform());
  t.teardown(scene.upstream.close);
  return scene;
};

const embedding = { model: 'openai/text-embedding-3-small', input: 'hello' };

/** All that asks a model: in our own form by sign-in, in OpenAI’s by key. */
const surfaces = [
  { kind: 'chat', path: '/ai/chat', body: saying('hello') },
  { kind: 'stream', path: '/ai/chat/stream', body: saying('hello') },
  { kind: 'embeddings', path: '/ai/embeddings', body: embedding },
  { kind: 'chat', path: '/v1/chat/completions', body: saying('hello') },
  { kind: 'stream', path: '/v1/chat/completions', body: saying('hello', { stream: true }) },
  { kind: 'embeddings', path: '/v1/embeddings', body: embedding },
] as const;
type Surface = (typeof surfaces)[number];

const askAt = ({ user, project }: ChatScene, { path, body }: Surface): Promise<Answer> =>
  path.startsWith('/v1/')
    ? platform().client.call('POST', path, { key: project.key, body })
    : platform().client.call('POST', `/projects/${project.id}${path}`, { token: user.token, body });

const askEverywhere = (scene: ChatScene): Promise<Answer[]> => Promise.all(surfaces.map((one) => askAt(scene, one)));

/** In either form. */
const codeOf = ({ body }: Answer): unknown => body.error?.code ?? body.code;

interface Row {
  readonly kind: string;
  readonly status: string;
  readonly error_code: string | null;
}

const rowsOf = ({ project }: Pick<ChatScene, 'project'>): Promise<Row[]> =>
  platform().db.query('select kind, status, error_code from ai_calls where project_id = $1 order by kind', [
    project.id,
  ]);

/** So many calls, once all of them have ended. */
const endedRows = (scene: Pick<ChatScene, 'project'>, count: number): Promise<readonly Row[]> =>
  until(async () => {
    const rows = await rowsOf(scene);
    return rows.length >= count && rows.every(({ status }) => status !== 'open') && rows;
  });

/** The key that `configure` gave OpenAI. */
const apiKey = 'sk-test-openai-0123456789';

test('a key that is refused by a provider that repeats it is in no answer and in no line of the log', async (t) => {
  const scene = await sceneOf(t);
  const { client, logged } = platform();
  const message = `Incorrect API key provided: ${apiKey}. You can find yours on our page.`;
  scene.upstream.answerWith(() => ({ status: 401, code: 'invalid_api_key', message, headers: { 'x-key': apiKey } }));
  const options = { token: scene.user.token };
  const tested = await client.call('POST', `/projects/${scene.project.id}/ai/providers/openai/test`, options);
  const listed = await client.call('GET', `/projects/${scene.project.id}/ai/models`, options);
  t.false(tested.body.ok);
  const answers = await askEverywhere(scene);
  for (const answer of answers) {
    t.is(answer.status, 424, answer.text);
    t.is(codeOf(answer), 'provider_auth_failed');
  }
  for (const { text, headers } of [...answers, tested, listed]) {
    t.true(text.includes('[key]'), text);
    t.false(text.includes('0123456789'), text);
    t.false(JSON.stringify([...headers]).includes('0123456789'));
    const id = headers.get('x-request-id') ?? '';
    await until(() => logged().includes(id));
  }
  t.false(logged().includes('0123456789'));
});

/** No call can be recorded while this holds; what is read stays readable. */
const withholdCalls = async (t: ExecutionContext): Promise<() => Promise<void>> => {
  const { db } = platform();
  const taken = Promise.withResolvers<void>();
  const over = Promise.withResolvers<void>();
  const reserved = db.transaction(async (tx) => {
    await tx.query('lock table ai_calls in exclusive mode');
    taken.resolve();
    await over.promise;
  });
  t.teardown(over.resolve);
  await Promise.race([taken.promise, reserved]);
  return async () => {
    over.resolve();
    await reserved;
  };
};

const isWithheld = async (): Promise<boolean> => {
  const sql = `
    select from pg_locks l join pg_database d on d.oid = l.database
    where not l.granted and l.relation = 'ai_calls'::regclass and d.datname = current_database()`;
  return (await platform().db.query(sql)).length > 0;
};

for (const [fault, begin] of [
  ['goes away', () => platform().postgres.refuse()],
  ['falls silent', () => platform().postgres.hang()],
  ['does not get to it', () => undefined],
] as const) {
  test.serial(
    `when Postgres ${fault} before a call is recorded, it is 503 and nothing of the answer goes out`,
    async (t) => {
      const scene = await sceneOf(t);
      t.teardown(platform().postgres.restore);
      const release = await withholdCalls(t);
      const requested = askEverywhere(scene);
      // All are let in, and their providers answer.
      await until(() => scene.upstream.requests.length === surfaces.length && isWithheld());
      await begin();
      for (const answer of await requested) {
        t.is(answer.status, 503, answer.text);
        t.is(codeOf(answer), 'dependency_unavailable');
        t.truthy(answer.headers.get('retry-after'));
        t.false(/You said|embedding|ECONN|ai_calls|127\.0\.0\.1/.test(answer.text), answer.text);
      }
      await platform().postgres.restore();
      await release();
      t.deepEqual(
        await endedRows(scene, surfaces.length),
        ['chat', 'chat', 'embeddings', 'embeddings', 'stream', 'stream'].map((kind) => ({
          kind,
          status: 'error',
          error_code: 'dependency_unavailable',
        })),
      );
      await until(async () => (await askEverywhere(scene)).every(({ status }) => status === 200));
    },
  );
}

interface Resetting {
  readonly base: string;
  readonly requested: () => number;
  /** Sends a real RST. */
  readonly reset: () => void;
}

/** Begins a stream and says no more. */
const serveBeginning = async (t: ExecutionContext, dialect: DialectName): Promise<Resetting> => {
  const said = { model: 'm', pieces: ['one ', 'two ', 'three'], tools: [], finish: 'stop', usage: null } as const;
  const { head, pieces } = wires[dialect].frames(said);
  const resets: (() => void)[] = [];
  const base = await serve(t, (req, res) => {
    req.resume();
    req.on('end', () => {
      resets.push(() => req.socket.resetAndDestroy());
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      res.write([...head, ...pieces.slice(0, 2)].map((frame) => `${frame}\n\n`).join(''));
    });
  });
  return { base, requested: () => resets.length, reset: () => resets.at(-1)?.() };
};

/** Reads a stream to its end; calls once, when that text has come. */
const readStream = async (
  { project }: Pick<ChatScene, 'project'>,
  { path, body, marker, onMarker }: { path: string; body: object; marker: string; onMarker: () => void },
): Promise<string> => {
  const answer = await fetch(`${platform().base}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', apikey: project.key },
    body: JSON.stringify(body),
  });
  let text = '';
  let hasCome = false;
  const decoder = new TextDecoder();
  for await (const chunk of answer.body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    if (hasCome || !text.includes(marker)) continue;
    hasCome = true;
    onMarker();
  }
  return text;
};

for (const dialect of ['openai', 'anthropic', 'google'] as const) {
  test(`${dialect}: a connection that is reset in the middle of a stream is an error event after what came`, async (t) => {
    const user = await platform().client.signUp();
    const project = await platform().client.createProject(user);
    const { base, requested, reset } = await serveBeginning(t, dialect);
    await configure(platform(), { user, project }, dialect, base);
    const body = saying('hello', { model: `${dialect}/m` });
    const reading = { marker: 'two', onMarker: reset };
    const own = eventsIn(await readStream({ project }, { ...reading, path: '/api/ai/chat/stream', body }));
    t.is(requested(), 1);
    t.is(own.map(({ chunk }) => chunk ?? '').join(''), 'one two ');
    const last = own.at(-1);
    t.deepEqual(Object.keys(last), ['error', 'done']);
    t.is(last.error.code, 'provider_unavailable');
    t.true(last.done);
    const openAi = await readStream(
      { project },
      { ...reading, path: '/v1/chat/completions', body: { ...body, stream: true } },
    );
    t.is(requested(), 2);
    const events = eventsIn(openAi);
    t.is(events.map(({ choices }) => choices?.[0]?.delta.content ?? '').join(''), 'one two ');
    t.is(events.at(-1).error.code, 'provider_unavailable');
    t.false(openAi.includes('[DONE]'));
    const ended = { kind: 'stream', status: 'error', error_code: 'provider_unavailable' };
    t.deepEqual(await endedRows({ project }, 2), [ended, ended]);
  });
}
