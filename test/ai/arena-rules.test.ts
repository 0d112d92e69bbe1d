import test from 'ava';
import { type ArenaCaller, arenaFailure, runArena } from '#domain/ai/arena.ts';
import type { ChatOutcome } from '#domain/ai/gateway/types.ts';
import { ServiceError } from '#lib/errors.ts';

const away = new ServiceError('dependency_unavailable', 'Postgres is away.');

const outcome: ChatOutcome = {
  provider: 'openai',
  latencyMs: 12.3,
  usage: { prompt_tokens: 1, completion_tokens: 2 },
  tokensSource: 'reported',
  answer: { model: 'm', content: 'Hi', toolCalls: [], finish: 'stop', usage: null, raw: null },
};

const overBudget = (seconds: string) => () =>
  Promise.reject(new ServiceError('budget_exceeded', 'Used up.', { headers: { 'Retry-After': seconds } }));

const refused = () => Promise.reject(new ServiceError('provider_rejected', 'No.'));

/** A model is named after what comes of it. */
const play = (answers: Readonly<Record<string, () => Promise<ChatOutcome>>>) => {
  const faults: unknown[] = [];
  const arenaCaller: ArenaCaller = {
    gateway: {
      chat: (_caller, { model }) => answers[model]?.() ?? Promise.reject(new Error('a fault with sk-secret in it')),
      stream: () => Promise.reject(new Error('not asked')),
      resolve: () => Promise.reject(new ServiceError('model_not_found', 'Unknown.')),
    },
    caller: {
      project: { id: 'p', plan: 'free', data_key: Buffer.alloc(0) },
      kind: 'arena',
      requestId: 'r',
      signal: new AbortController().signal,
    },
    noteFault: (error) => void faults.push(error),
  };
  const run = (...models: string[]) => runArena(arenaCaller, { models, chat: { messages: [] } }, () => undefined);
  return { run, faults };
};

test('a fault of ours is noted whole and told without its words', async (t) => {
  const { run, faults } = play({ good: () => Promise.resolve(outcome) });
  const [bad, good] = await run('openai/bad', 'good');
  t.is(bad?.error?.code, 'internal');
  t.false(JSON.stringify(bad).includes('sk-secret'));
  t.is(faults.length, 1);
  t.is(bad?.provider, 'openai');
  t.is(good?.error, null);
  t.is(good?.latency_ms, 12);
});

test('one answer is enough; when all fail it is the models’ fault, unless all say that something of ours is away', async (t) => {
  const { run } = play({ good: () => Promise.resolve(outcome), refused, away: () => Promise.reject(away) });
  t.is(arenaFailure(await run('good', 'refused')), null);
  t.is(arenaFailure(await run('away', 'refused'))?.code, 'provider_unavailable');
  t.is(arenaFailure(await run('away', 'away'))?.code, 'dependency_unavailable');
  const entries = await run('refused', 'away');
  t.deepEqual(arenaFailure(entries)?.details, entries);
});

test('what kept us from asking all of them is the answer, with the longest wait', async (t) => {
  const { run } = play({ refused, soon: overBudget('20'), late: overBudget('300') });
  t.like(arenaFailure(await run('soon', 'late')), {
    code: 'budget_exceeded',
    status: 429,
    message: 'Used up.',
    headers: { 'Retry-After': '300' },
  });
  t.like(arenaFailure(await run('soon', 'refused')), { code: 'provider_unavailable', headers: {} });
  t.like(arenaFailure(await run('refused', 'refused')), { code: 'provider_unavailable', status: 502 });
});
