import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { type AiProject, createAiProject } from '#test/support/ai-project.ts';
import { type AiUpstream, aiUpstreamFor } from '#test/support/ai-upstream.ts';
import { type Answer, createClient } from '#test/support/client.ts';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { eventsIn } from './chat-scene.ts';

/** Prices of our own, so that budgets can be reckoned: 1,000 nano-USD for a token of a prompt, 2,000 of an answer. */
const folder = await mkdtemp(path.join(tmpdir(), 'hard-budget-'));
const prices = path.join(folder, 'prices.json');
const price = { input_usd_per_million: 1, output_usd_per_million: 2 };
const embedder = { input_usd_per_million: 1, type: 'embedding' };
await writeFile(prices, JSON.stringify({ openai: { priced: price, embedder }, anthropic: { priced: price } }));
test.after.always('the prices are gone', () => rm(folder, { recursive: true, force: true }));

const platform = usePlatform(test, { settings: { PLINTH_AI_PRICES: prices } });

/** The reservation of one chat: 20 tokens around a prompt, one for each of its bytes, and 50 for the answer. */
const chatReserve = (20 + 'hello'.length) * 1000 + 50 * 2000;
/** The provider says that all of it was used. */
const chatUse = { prompt_tokens: 25, completion_tokens: 50 };
const usd = (nano: number): number => nano / 1e9;

const chat = { messages: [{ role: 'user', content: 'hello' }], max_tokens: 50 };
const tooSmall = usd(1000);
const ample = 1;

interface Scene extends AiProject {
  readonly upstream: AiUpstream;
  /** A call below `/projects/{id}/ai`. */
  readonly ask: (
    method: string,
    rest: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ) => Promise<Answer>;
  readonly askByKey: (whole: string, body: unknown) => Promise<Answer>;
  readonly setBudget: (monthly_usd: number, hard?: boolean) => Promise<void>;
}

/** A project and a provider of the test's own. */
const createScene = async (t: ExecutionContext): Promise<Scene> => {
  const { client } = platform();
  const upstream = await aiUpstreamFor(t);
  const of = await createAiProject(platform(), upstream);
  const ask: Scene['ask'] = (method, rest, body, headers = {}) =>
    client.call(method, `${of.path}/ai${rest}`, { token: of.user.token, body, headers });
  return {
    ...of,
    upstream,
    ask,
    askByKey: (whole, body) => client.call('POST', whole, { key: of.project.key, body }),
    setBudget: async (monthly_usd, hard = true) => {
      const answer = await ask('PUT', '/budget', { monthly_usd, hard });
      if (answer.status !== 200) throw new Error(`setting a budget answered ${answer.status}: ${answer.text}`);
    },
  };
};

/** The requests that reached the provider, lists of models excepted: they are free. */
const requestedOf = ({ upstream }: Scene) => upstream.requests.filter(({ kind }) => kind !== 'models');

const untilNextMonth = (now: Date): number =>
  Math.ceil((Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1) - now.getTime()) / 1000);

/** Retry-After names the beginning of the next month, from a moment between the question and now. */
const saysNextMonth = (t: ExecutionContext, { headers }: Answer, requestedAt: Date): void => {
  const seconds = headers.get('retry-after') ?? '';
  t.regex(seconds, /^\d+$/);
  const moments = [untilNextMonth(requestedAt), untilNextMonth(new Date())];
  t.true(Number(seconds) >= Math.min(...moments) && Number(seconds) <= Math.max(...moments), seconds);
};

const inOwnForm = (t: ExecutionContext, answer: Answer): void => isError(t, answer, 429, 'budget_exceeded');

const inOpenAiForm = (t: ExecutionContext, { status, headers, body, text }: Answer): void => {
  t.is(status, 429, text);
  t.deepEqual(Object.keys(body), ['error']);
  const { message, ...rest } = body.error;
  t.deepEqual(rest, { type: 'rate_limit_error', code: 'budget_exceeded', param: null });
  t.regex(message, /budget/);
  t.is(headers.get('x-should-retry'), 'false');
};

const ofEachModel = (t: ExecutionContext, answer: Answer): void => {
  inOwnForm(t, answer);
  t.deepEqual(
    answer.body.details.map(({ model, content, error }: Answer['body']) => [model, content, error.code]),
    arenaModels.map((model) => [model, null, 'budget_exceeded']),
  );
};

const arenaModels = ['openai/priced', 'anthropic/priced'];
const model = 'openai/priced';
const embed = { model: 'openai/embedder', input: 'hello' };

interface Surface {
  readonly ask: (scene: Scene) => Promise<Answer>;
  readonly isRefusal: (t: ExecutionContext, answer: Answer) => void;
  /** Calls of the provider, and rows in the usage, once it is answered. */
  readonly calls?: number;
}

const surfaces: Readonly<Record<string, Surface>> = {
  'a chat': { ask: ({ ask }) => ask('POST', '/chat', { ...chat, model }), isRefusal: inOwnForm },
  'a chat by key': { ask: ({ askByKey }) => askByKey('/api/ai/chat', { ...chat, model }), isRefusal: inOwnForm },
  'a stream': { ask: ({ ask }) => ask('POST', '/chat/stream', { ...chat, model }), isRefusal: inOwnForm },
  'a completion in OpenAI’s form': {
    ask: ({ askByKey }) => askByKey('/v1/chat/completions', { ...chat, model }),
    isRefusal: inOpenAiForm,
  },
  'a streamed completion in OpenAI’s form': {
    ask: ({ askByKey }) => askByKey('/v1/chat/completions', { ...chat, model, stream: true }),
    isRefusal: inOpenAiForm,
  },
  embeddings: { ask: ({ ask }) => ask('POST', '/embeddings', embed), isRefusal: inOwnForm },
  'embeddings in OpenAI’s form': { ask: ({ askByKey }) => askByKey('/v1/embeddings', embed), isRefusal: inOpenAiForm },
  'an arena': {
    ask: ({ ask }) => ask('POST', '/arena', { ...chat, models: arenaModels }),
    isRefusal: ofEachModel,
    calls: 2,
  },
  'an arena as events': {
    ask: ({ ask }) => ask('POST', '/arena', { ...chat, models: arenaModels }, { accept: 'text/event-stream' }),
    isRefusal: ofEachModel,
    calls: 2,
  },
};

/** Calls that ended, as the usage tells; those of a worker are recorded in the background. */
const ended = async ({ ask, project }: Scene): Promise<Answer['body']> => {
  const open = `select count(*)::int as open from ai_calls where project_id = $1 and status = 'open'`;
  await until(async () => (await platform().db.query<{ open: number }>(open, [project.id]))[0]?.open === 0);
  return (await ask('GET', '/usage')).body;
};

for (const [title, { ask, isRefusal, calls = 1 }] of Object.entries(surfaces)) {
  test(`under a hard budget without room for it, 429 and nobody is asked, with more room an answer: ${title}`, async (t) => {
    const scene = await createScene(t);
    await scene.setBudget(tooSmall);
    const requestedAt = new Date();
    const refusal = await ask(scene);
    isRefusal(t, refusal);
    saysNextMonth(t, refusal, requestedAt);
    t.deepEqual(requestedOf(scene), []);
    t.is((await ended(scene)).total_requests, 0);
    t.is((await scene.ask('GET', '/budget')).body.used_usd, 0);

    await scene.setBudget(ample);
    const answer = await ask(scene);
    t.is(answer.status, 200, answer.text);
    t.is(requestedOf(scene).length, calls);
    const usage = await ended(scene);
    t.is(usage.total_requests, calls);
    t.true(usage.total_cost_nano_usd > 0);
    t.is((await scene.ask('GET', '/budget')).body.used_usd, usd(usage.total_cost_nano_usd));
  });
}

const statusesOf = (answers: readonly Answer[]) => ({
  answered: answers.filter(({ status }) => status === 200),
  refused: answers.filter(({ status }) => status === 429),
});

test('of 20 chats at once, at two APIs, some are answered, and together they cost no more than the budget', async (t) => {
  const scene = await createScene(t);
  const clients = [platform().client, createClient(await platform().startApi())];
  scene.upstream.answerWith(() => ({ usage: chatUse }));
  const room = 4.5 * chatReserve;
  await scene.setBudget(usd(room));
  const request = { token: scene.user.token, body: { ...chat, model } };
  const tens = clients.map((client) =>
    Array.from({ length: 10 }, () => client.call('POST', `${scene.path}/ai/chat`, request)),
  );
  const { answered, refused } = statusesOf(await Promise.all(tens.flat()));
  for (const answer of refused) inOwnForm(t, answer);
  t.is(answered.length, 4);
  t.is(refused.length, 16);
  t.is(requestedOf(scene).length, 4);
  const usage = await ended(scene);
  t.is(usage.total_requests, 4);
  t.is(usage.total_cost_nano_usd, 4 * chatReserve);
  const { body: budget } = await scene.ask('GET', '/budget');
  t.like(budget, { monthly_usd: usd(room), hard: true, used_usd: usd(4 * chatReserve) });
});

test('streams keep their part of a hard budget while they come, and give back what they did not use', async (t) => {
  const scene = await createScene(t);
  const { promise: goesOn, resolve: goOn } = Promise.withResolvers<void>();
  t.teardown(goOn);
  scene.upstream.answerWith(() => ({
    hold: { after: 1, until: goesOn },
    usage: { prompt_tokens: 5, completion_tokens: 3 },
  }));
  await scene.setBudget(usd(3.5 * chatReserve));
  let refusals = 0;
  const requested = Array.from({ length: 20 }, async () => {
    const answer = await scene.ask('POST', '/chat/stream', { ...chat, model });
    refusals += answer.status === 429 ? 1 : 0;
    return answer;
  });
  await until(() => refusals + requestedOf(scene).length === 20);
  t.is(refusals, 17);
  t.is((await scene.ask('GET', '/budget')).body.used_usd, 0);
  goOn();
  const { answered } = statusesOf(await Promise.all(requested));
  t.is(answered.length, 3);
  for (const { text } of answered) t.true(eventsIn(text).at(-1).done);
  t.is((await ended(scene)).total_cost_nano_usd, 3 * (5 * 1000 + 3 * 2000));
  t.is((await scene.ask('POST', '/chat', { ...chat, model })).status, 200);
});

test('a model without a price is refused under a hard budget, nobody is asked; a budget that only reports lets it pass', async (t) => {
  const scene = await createScene(t);
  const unpriced = { ...chat, model: 'openai/unheard-of' };
  const vectors = { model: 'openai/unheard-of-embed', input: 'hello' };
  await scene.setBudget(ample);
  for (const [rest, body] of [
    ['/chat', unpriced],
    ['/chat/stream', unpriced],
    ['/embeddings', vectors],
  ] as const) {
    isError(t, await scene.ask('POST', rest, body), 400, 'price_unknown');
  }
  const { status, body } = await scene.askByKey('/v1/chat/completions', unpriced);
  t.deepEqual([status, body.error.type, body.error.code], [400, 'invalid_request_error', 'price_unknown']);
  t.deepEqual(requestedOf(scene), []);

  const unheard = await scene.ask('POST', '/arena', { ...chat, models: ['openai/unheard-of', 'openai/unheard-of'] });
  isError(t, unheard, 400, 'price_unknown');
  const models = ['openai/unheard-of', model];
  const arena = await scene.ask('POST', '/arena', { ...chat, models });
  t.is(arena.status, 200, arena.text);
  t.deepEqual(
    arena.body.results.map(({ error }: Answer['body']) => error?.code ?? null),
    ['price_unknown', null],
  );
  t.deepEqual(
    requestedOf(scene).map((request) => request.model),
    ['priced'],
  );

  await scene.setBudget(ample, false);
  t.is((await scene.ask('POST', '/chat', unpriced)).status, 200);
});

/** An answer far beyond 1,000 tokens, whose provider does not say how many they are. */
const runningOn = (until: Promise<unknown>) => ({
  pieces: Array.from({ length: 24 }, () => 'x'.repeat(1000)),
  usage: null,
  hold: { after: 20, until },
});

const brokenOff = {
  'plinth’s own form': {
    ask: ({ ask }: Scene) => ask('POST', '/chat/stream', { ...chat, max_tokens: 1000, model }),
    textIn: ({ chunk = '' }: Answer['body']): string => chunk,
    isDone: true,
  },
  'OpenAI’s form': {
    ask: ({ askByKey }: Scene) => askByKey('/v1/chat/completions', { ...chat, max_tokens: 1000, model, stream: true }),
    textIn: ({ choices = [] }: Answer['body']): string => choices[0]?.delta?.content ?? '',
    isDone: undefined,
  },
};

for (const [form, { ask, textIn, isDone }] of Object.entries(brokenOff)) {
  test(`a stream that goes beyond what a hard budget granted ends with the error, in ${form}`, async (t) => {
    const scene = await createScene(t);
    const { promise, resolve } = Promise.withResolvers<void>();
    t.teardown(resolve);
    scene.upstream.answerWith(() => runningOn(promise));
    await scene.setBudget(ample);
    const answer = await ask(scene);
    t.is(answer.status, 200, answer.text);
    const events = eventsIn(answer.text);
    const last = events.pop();
    t.is(last.error.code, 'budget_exceeded');
    t.is(last.done, isDone);
    t.false(answer.text.includes('[DONE]'));
    // Nobody writes more than eight characters a token: what was granted is 1,000 of them and the prompt.
    t.true(events.map(textIn).join('').length < 8200);
    await until(() => requestedOf(scene)[0]?.closedAt);
    const { recent_logs: logs } = await ended(scene);
    t.is(logs.length, 1);
    t.like(logs[0], { kind: 'stream', status: 'error', error_code: 'budget_exceeded' });
    t.true(logs[0].cost_nano_usd >= 25 * 1000 + 1000 * 2000);
  });
}
