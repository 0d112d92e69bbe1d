import { type ArenaChat, arenaFailure, runArena } from '#domain/ai/arena.ts';
import type { Gateway } from '#domain/ai/gateway/types.ts';
import { findProject } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import { notFound } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { ArenaResult, aiArena } from '#queues/ai-arena.ts';
import type { JobData, JobOutcome } from '#queues/define.ts';
import type { JobContext, Processor, Run } from '../processor.ts';

export interface AiArenaDeps {
  readonly db: Queryable;
  readonly gateway: Gateway;
  readonly log: Log;
}

/** Reports to readers of the job which models have ended. */
const progressReporter = (context: JobContext, of: number): ((entry: ArenaResult) => void) => {
  let done = 0;
  return ({ model, latency_ms: ms, error }) => {
    done += 1;
    const name = JSON.stringify(model);
    if (error === null) context.log('info', `${name} answered in ${ms} ms`);
    else context.log('warn', `${name} failed after ${ms} ms: ${error.code}`);
    context.progress((100 * done) / of);
  };
};

const outcomeOf = (results: readonly ArenaResult[]): JobOutcome => {
  const failure = arenaFailure(results);
  const result = JSON.stringify({ results });
  if (failure === null) return { status: 'succeeded', result, error: null };
  // Not even where it could not be recorded: the providers are asked meanwhile, and paid.
  return { status: 'failed', result, error: { code: failure.code, message: failure.message } };
};

/** Older data are read again: a start may wait for minutes to be recorded. */
const staleAfterMs = 500;

/** Somebody waits for it: the project is read while the start is recorded. */
const aheadWith =
  ({ db, gateway, log }: AiArenaDeps) =>
  (projectId: string): Run => {
    const readAt = performance.now();
    // A read that fails now may succeed when the start is recorded.
    const early = findProject(db, projectId).catch(() => undefined);
    return async (given, context) => {
      const { models, chat } = given as JobData<typeof aiArena>;
      const isFresh = performance.now() - readAt < staleAfterMs;
      const project = (isFresh ? await early : undefined) ?? (await findProject(db, projectId));
      if (project === undefined) throw notFound('project');
      const { requestId, signal } = context;
      const arenaCaller = {
        gateway,
        caller: { project, kind: 'arena', requestId, signal },
        noteFault: (error: unknown) => log.error({ err: error }, 'a model of an arena could not be called'),
      } as const;
      const arenaRequest = { models, chat: chat as unknown as ArenaChat };
      return outcomeOf(await runArena(arenaCaller, arenaRequest, progressReporter(context, models.length)));
    };
  };

export const aiArenaProcessor = (deps: AiArenaDeps): Processor => {
  const ahead = aheadWith(deps);
  return { ahead, run: (data, context) => ahead(context.projectId)(data, context) };
};
