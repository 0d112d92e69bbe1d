import test from 'ava';
import type { Gateway } from '#domain/ai/gateway/types.ts';
import type { Queryable } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import { insertProject, openEngine, succeeded, testJobs } from '#test/support/engine.ts';
import { aiArenaProcessor } from '#workers/processors/ai-arena.ts';
import type { JobContext } from '#workers/processor.ts';

test('what a processor reads ahead is asked for by the project, and what comes of it runs the job', async (t) => {
  const scene = await openEngine(t);
  const requested: string[] = [];
  await scene.startWorker({
    ahead: (projectId) => {
      requested.push(projectId);
      return () => Promise.resolve(succeeded('ahead'));
    },
    run: () => Promise.resolve(succeeded('not ahead')),
  });
  const projectId = newId();
  const id = await scene.accept(testJobs.once, projectId);
  t.is((await scene.rowWhen(id, 'succeeded')).result, '"ahead"');
  t.deepEqual(requested, [projectId]);
});

const contextOf = (projectId: string): JobContext => ({
  jobId: newId(),
  projectId,
  requestId: 'r1',
  attempt: 1,
  signal: new AbortController().signal,
  log: () => undefined,
  progress: () => undefined,
});

test('an arena whose project could not be read ahead reads it once it may begin', async (t) => {
  const { db, log } = await openEngine(t);
  const projectId = await insertProject(db);
  let reads = 0;
  const query: Queryable['query'] = (...statement) => {
    reads += 1;
    return reads === 1 ? Promise.reject(new Error('the connection broke')) : db.query(...statement);
  };
  const answer = { content: 'yes' };
  const usage = { prompt_tokens: 1, completion_tokens: 1 };
  const gateway = {
    chat: () => Promise.resolve({ provider: 'openai', answer, usage, latencyMs: 1 }),
  } as unknown as Gateway;
  const run = aiArenaProcessor({ db: { query }, gateway, log }).ahead?.(projectId);
  const given = { models: ['one', 'two'], chat: { messages: [] } };
  const outcome = await run?.(given, contextOf(projectId));
  t.is(outcome?.status, 'succeeded');
  t.is(reads, 2);
});
