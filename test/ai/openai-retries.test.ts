import test from 'ava';
import OpenAI, { APIError, InternalServerError } from 'openai';
import { uniqueName } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { type ChatScene, createScene } from './chat-scene.ts';

const platform = usePlatform(test);

let scene: ChatScene;

test.before('a project has three providers', async () => {
  scene = await createScene(platform());
});
test.after.always('they are gone', () => scene.upstream.close());

/** An answer of ours to a request of the client. */
interface Answered {
  readonly status: number;
  readonly retryAfter: string | null;
}

/** The unmodified client with its usual settings; only what it was answered is noted. */
const clientOf = (): { readonly openai: OpenAI; readonly answers: readonly Answered[] } => {
  const answers: Answered[] = [];
  const noting: typeof fetch = async (input, init) => {
    const answer = await fetch(input, init);
    answers.push({ status: answer.status, retryAfter: answer.headers.get('retry-after') });
    return answer;
  };
  const openai = new OpenAI({ apiKey: scene.project.key, baseURL: `${platform().base}/v1`, fetch: noting });
  return { openai, answers };
};

const statuses = (answers: readonly Answered[]): number[] => answers.map(({ status }) => status);

/** How often the provider was asked for that model, which is one test's own. */
const requestedBy = (model: string): number => scene.upstream.requests.filter((one) => one.model === model).length;

const chatRequest = (model: string, content: string) => ({
  model: `openai/${model}`,
  messages: [{ role: 'user' as const, content }],
});

/** How so many calls for that model ended, once they have. */
const endsOf = async (model: string, count: number): Promise<string[]> => {
  const rows = await until(async () => {
    const found = await platform().db.query<{ status: string; error_code: string | null }>(
      'select status, error_code from ai_calls where model = $1 order by started_at',
      [model],
    );
    return found.length >= count && found.every(({ status }) => status !== 'open') && found;
  });
  return rows.map(({ status, error_code: code }) => code ?? status);
};

for (const [word, sentence] of [
  ['ERR500ONCE:3', 'answers 500 three times'],
  ['RESETONCE:3', 'breaks the connection three times'],
] as const) {
  test(`a provider that ${sentence} is well for a client that asks again: a completion`, async (t) => {
    const { openai, answers } = clientOf();
    const model = uniqueName('whole');
    const made = await openai.chat.completions.create(chatRequest(model, `${word} whole`));
    t.is(made.choices[0]?.message.content, `You said: ${word} whole`);
    // One call of ours asks three times.
    t.is(requestedBy(model), 4);
    t.deepEqual(statuses(answers), [502, 200]);
    t.deepEqual(await endsOf(model, answers.length), ['provider_unavailable', 'success']);
  });

  test(`a provider that ${sentence} is well for a client that asks again: a stream`, async (t) => {
    const { openai, answers } = clientOf();
    const model = uniqueName('stream');
    let text = '';
    const body = { ...chatRequest(model, `${word} stream`), stream: true } as const;
    for await (const { choices } of await openai.chat.completions.create(body)) text += choices[0]?.delta.content ?? '';
    t.is(text, `You said: ${word} stream`);
    t.is(requestedBy(model), 4);
    t.deepEqual(statuses(answers), [502, 200]);
    t.deepEqual(await endsOf(model, answers.length), ['provider_unavailable', 'success']);
  });

  test(`a provider that ${sentence} is well for a client that asks again: embeddings`, async (t) => {
    const { openai, answers } = clientOf();
    const model = uniqueName('embeddings');
    const made = await openai.embeddings.create({ model: `openai/${model}`, input: [`${word} one`, 'two'] });
    t.deepEqual(
      made.data.map(({ embedding }) => embedding.length),
      [8, 8],
    );
    t.is(requestedBy(model), 4);
    t.deepEqual(statuses(answers), [502, 200]);
    t.deepEqual(await endsOf(model, answers.length), ['provider_unavailable', 'success']);
  });
}

test('a provider that stays away is an error of the client, after as many requests as it makes by itself', async (t) => {
  const { openai, answers } = clientOf();
  const model = uniqueName('away');
  const ask = openai.chat.completions.create(chatRequest(model, 'ERR503'));
  const error = await t.throwsAsync(() => ask, { instanceOf: InternalServerError });
  t.like(error, { status: 502, code: 'provider_unavailable' });
  t.deepEqual(statuses(answers), [502, 502, 502]);
  t.is(requestedBy(model), 9);
  t.deepEqual(
    await endsOf(model, answers.length),
    Array.from({ length: 3 }, () => 'provider_unavailable'),
  );
});

test('a limit that lasts longer than one call of ours is passed on, and the client comes back by itself', async (t) => {
  const { openai, answers } = clientOf();
  const model = uniqueName('limited');
  scene.upstream.answerWith((request) =>
    request.model === model && requestedBy(model) <= 5 ? { status: 429, headers: { 'retry-after': '0' } } : undefined,
  );
  const made = await openai.chat.completions.create(chatRequest(model, 'once more'));
  t.is(made.choices[0]?.message.content, 'You said: once more');
  t.is(requestedBy(model), 6);
  t.deepEqual(answers, [
    { status: 429, retryAfter: '1' },
    { status: 200, retryAfter: null },
  ]);
  t.deepEqual(await endsOf(model, answers.length), ['provider_rate_limited', 'success']);
});

test('an answer that nobody understands is not asked for again: it may have been paid for', async (t) => {
  const { openai, answers } = clientOf();
  const model = uniqueName('garbled');
  const ask = openai.chat.completions.create(chatRequest(model, 'NOTJSON'));
  const error = await t.throwsAsync(() => ask, { instanceOf: InternalServerError });
  t.like(error, { status: 502, code: 'provider_bad_output' });
  t.deepEqual(statuses(answers), [502]);
  t.is(requestedBy(model), 1);
  t.deepEqual(await endsOf(model, answers.length), ['provider_bad_output']);
});

test('a stream that breaks off after some text is not asked for again: its reader has had that text', async (t) => {
  const { openai, answers } = clientOf();
  const model = uniqueName('broken');
  let text = '';
  const read = async (): Promise<void> => {
    const body = { ...chatRequest(model, 'CUT here'), stream: true } as const;
    for await (const { choices } of await openai.chat.completions.create(body)) text += choices[0]?.delta.content ?? '';
  };
  await t.throwsAsync(read, { instanceOf: APIError });
  t.is(text, 'You said: ');
  t.deepEqual(statuses(answers), [200]);
  t.is(requestedBy(model), 1);
  t.deepEqual(await endsOf(model, answers.length), ['provider_unavailable']);
});
