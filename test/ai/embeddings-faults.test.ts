import test, { type ExecutionContext } from 'ava';
import { type TestProject, type TestUser, uniqueName } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { createScene } from './chat-scene.ts';
import { type AloneOptions, gatewayAlone, knownModel, refused } from './gateway-alone.ts';

const platform = usePlatform(test);

const dialects = ['openai', 'google'] as const;
type Dialect = (typeof dialects)[number];

/** A gateway whose one provider embeds. */
const embedder = async (t: ExecutionContext, dialect: Dialect, options: AloneOptions = {}) => {
  const alone = await gatewayAlone(t, {
    keys: (upstream) => ({ [dialect]: upstream[dialect] }),
    models: [knownModel(dialect, 'e', { type: 'embedding' })],
    ...options,
  });
  const caller = { ...alone.caller, kind: 'embeddings' } as const;
  const embed = (...input: readonly string[]) => alone.gateway.embed(caller, { model: `${dialect}/e`, input });
  return { ...alone, embed };
};

const failed = (code: string) => ({ status: 'error', errorCode: code, usage: null, costNanoUsd: 0 });

for (const dialect of dialects) {
  for (const [word, tries] of [
    ['ERR500ONCE', 2],
    ['ERR500ONCE:2', 3],
    ['ERR429ONCE', 2],
    ['RESETONCE', 2],
    ['RESETONCE:2', 3],
  ] as const) {
    test(`${dialect}: ${word} is asked ${tries} times, then there are vectors; one row`, async (t) => {
      const { embed, calls, upstream } = await embedder(t, dialect);
      const { vectors, dimensions } = await embed(`${word} first`, 'second');
      t.is(dimensions, 8);
      t.is(vectors.length, 2);
      t.is(upstream.requests.length, tries);
      t.true(upstream.requests.every(({ kind, model }) => kind === 'embeddings' && model === 'e'));
      t.is(calls.length, 1);
      t.like(calls[0]?.intent, { kind: 'embeddings', provider: dialect, model: 'e' });
      t.like(calls[0]?.end, { status: 'success', errorCode: null, givenUp: false });
    });
  }

  for (const [word, tries, code, status] of [
    ['ERR500', 3, 'provider_unavailable', 502],
    ['ERR503', 3, 'provider_unavailable', 502],
    ['ERR500ONCE:3', 3, 'provider_unavailable', 502],
    ['RESET', 3, 'provider_unavailable', 502],
    ['ERR429:0', 5, 'provider_rate_limited', 429],
    ['ERR429:11', 1, 'provider_rate_limited', 429],
    ['ERR429', 1, 'provider_rate_limited', 429],
    ['ERR400', 1, 'provider_rejected', 400],
    ['ERR401', 1, 'provider_auth_failed', 424],
    ['ERR404', 1, 'model_not_found', 404],
    ['CTXLEN', 1, 'context_length_exceeded', 400],
  ] as const) {
    test(`${dialect}: ${word} is ${status} ${code}, asked ${tries} times; one row, which costs nothing`, async (t) => {
      const { embed, calls, upstream } = await embedder(t, dialect);
      const error = await refused(embed(`${word} first`, 'second'));
      t.is(error.code, code);
      t.is(error.status, status);
      t.is(upstream.requests.length, tries);
      t.is(calls.length, 1);
      t.like(calls[0]?.end, { ...failed(code), givenUp: false });
      const waits: Readonly<Record<string, string>> = { 'ERR429:0': '1', 'ERR429:11': '11', ERR429: '30' };
      t.is(error.headers['Retry-After'], waits[word]);
    });
  }

  test(`${dialect}: silence is 504, asked once; one row, whose prompt counts since it may be paid for`, async (t) => {
    const { embed, calls, upstream } = await embedder(t, dialect, { times: { firstByteMs: 50 } });
    const error = await refused(embed('BLACKHOLE', 'second'));
    t.is(error.code, 'provider_timeout');
    t.is(error.status, 504);
    t.is(upstream.requests.length, 1);
    t.is(calls.length, 1);
    t.like(calls[0]?.end, { status: 'error', errorCode: 'provider_timeout', tokensSource: 'estimated', givenUp: true });
    t.deepEqual(calls[0]?.end?.usage, { prompt_tokens: 5, completion_tokens: 0 });
    await until(() => upstream.requests[0]?.closedAt !== null);
  });

  test(`${dialect}: an answer that breaks off, or is none, is asked for once and recorded once`, async (t) => {
    for (const [word, code] of [
      ['RESETHEADERS', 'provider_unavailable'],
      ['NOTJSON', 'provider_bad_output'],
    ] as const) {
      const { embed, calls, upstream } = await embedder(t, dialect);
      const error = await refused(embed(word));
      t.is(error.code, code);
      t.is(error.status, 502);
      t.is(upstream.requests.length, 1, word);
      t.is(calls.length, 1);
      t.like(calls[0]?.end, { status: 'error', errorCode: code, givenUp: true });
    }
  });
}

test('of many texts only the part that failed is asked for again', async (t) => {
  const { embed, calls, upstream } = await embedder(t, 'google');
  const input = Array.from({ length: 250 }, (_, i) => (i === 100 ? 'RESETONCE' : `text ${i}`));
  const { vectors } = await embed(...input);
  t.is(vectors.length, 250);
  t.deepEqual(
    upstream.requests.map(({ text }) => text),
    ['text 0', 'RESETONCE', 'RESETONCE', 'text 200'],
  );
  t.is(calls.length, 1);
  t.is(calls[0]?.end?.status, 'success');
});

test('of many texts a part that never comes is an error of the whole, in whose row stand the parts before it', async (t) => {
  const { embed, calls, upstream } = await embedder(t, 'google');
  const input = Array.from({ length: 250 }, (_, i) => (i === 100 ? 'ERR503' : 'text'));
  const error = await refused(embed(...input));
  t.is(error.code, 'provider_unavailable');
  t.is(upstream.requests.length, 4);
  t.is(calls.length, 1);
  t.like(calls[0]?.end, { status: 'error', errorCode: 'provider_unavailable', costNanoUsd: 100 * 1000 });
  t.deepEqual(calls[0]?.end?.usage, { prompt_tokens: 100, completion_tokens: 0 });
});

interface Owned {
  readonly user: TestUser;
  readonly project: TestProject;
}

/** The ways to ask for embeddings, and the number of vectors that each answered. */
const waysOf = ({ user, project }: Owned) => {
  const { client } = platform();
  const byUser = async (body: object) => {
    const path = `/projects/${project.id}/ai/embeddings`;
    const answer = await client.call('POST', path, { token: user.token, body });
    return { answer, vectors: answer.body?.embeddings as unknown[] | undefined };
  };
  const byKey = async (body: object) => {
    const answer = await client.call('POST', '/v1/embeddings', { key: project.key, body });
    return { answer, vectors: answer.body?.data as unknown[] | undefined };
  };
  return [byUser, byKey];
};

test('exactly 2,048 texts are taken, in requests as large as the provider takes them, as one call', async (t) => {
  const scene = await createScene(platform());
  t.teardown(scene.upstream.close);
  for (const [provider, requests] of [
    ['openai', 1],
    ['google', 21],
  ] as const) {
    for (const ask of waysOf(scene)) {
      const model = uniqueName('many');
      const input = Array.from({ length: 2048 }, (_, i) => `text ${i}`);
      const { answer, vectors } = await ask({ model: `${provider}/${model}`, input, dimensions: 2 });
      t.is(answer.status, 200, answer.text);
      t.is(vectors?.length, 2048);
      const requested = scene.upstream.requests.filter((one) => one.model === model);
      t.is(requested.length, requests);
      const last = requested.at(-1)?.body;
      t.is((provider === 'openai' ? last.input : last.requests).length, provider === 'openai' ? 2048 : 48);
      const rows = await until(async () => {
        const sql = 'select status from ai_calls where project_id = $1 and model = $2';
        const found = await platform().db.query<{ status: string }>(sql, [scene.project.id, model]);
        return found.every(({ status }) => status !== 'open') && found;
      });
      t.deepEqual(rows, [{ status: 'success' }]);
    }
  }
});
