import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { type InvocationRow, getInvocation, goesOn } from '#domain/functions/invocations.ts';
import type { Followed, FollowedEvent } from '#domain/jobs/follow.ts';
import { type KeptLine, logLinesAfter } from '#domain/jobs/logs.ts';
import { ServiceError } from '#lib/errors.ts';
import type { Deps } from './deps.ts';
import type { RawReply } from './endpoint.ts';
import { invocation, shownInvocation } from './function-shapes.ts';
import { listen } from './job-events.ts';
import { type EventStream, eventText } from './sse.ts';

const lookEveryMs = 100;
/** A line that was told just before somebody listened is on its way to the rows. */
const rowsLagMs = 50;

type LoggedLine = Pick<KeptLine, 'ts' | 'message'> & { readonly level: string };

const textOf = (line: LoggedLine): string =>
  eventText('log', { ts: line.ts, level: line.level, message: line.message });

/** What a listener was told already, and what it is to be told. */
interface Telling {
  readonly deps: Deps;
  readonly stream: EventStream;
  readonly row: InvocationRow;
  /** How many lines were told. */
  told: number;
}

/** A log can be longer than what may lie unread: it goes out as one text, and the next only when that was taken. */
const tell = async (telling: Telling, lines: readonly LoggedLine[], last = ''): Promise<void> => {
  const { stream } = telling;
  telling.told += lines.length;
  if (lines.length > 0 || last !== '') stream.sendText(lines.map(textOf).join('') + last);
  if (!stream.body.destroyed && Reflect.get(stream.body, 'writableNeedDrain') === true)
    await Promise.race([once(stream.body, 'drain'), once(stream.body, 'close')]);
};

const tellEnd = async (telling: Telling, row: InvocationRow): Promise<void> => {
  const shown = shownInvocation(row);
  await tell(telling, shown.logs.slice(telling.told), eventText('end', z.encode(invocation, shown)));
  telling.stream.end();
};

/** The record of a run whose job has ended: it is written within moments, or when Postgres is back. */
const recorded = async ({ deps, row, stream }: Telling): Promise<InvocationRow | undefined> => {
  while (!stream.body.destroyed && !stream.body.readableEnded) {
    const now = await getInvocation(deps.db, row.function_id, row.id).catch((error: unknown) => {
      if (error instanceof ServiceError && error.code === 'not_found') return undefined;
      return row;
    });
    if (now === undefined || !goesOn(now)) return now;
    await pause(lookEveryMs);
  }
  return undefined;
};

/** What is heard of a run while it is told of. */
const hearing = () => {
  const lines = new Map<number, LoggedLine>();
  let woken = Promise.withResolvers<void>();
  let over = false;
  return {
    isOver: () => over,
    hear: (event: FollowedEvent): void => {
      if (event.event === 'log' && event.line !== undefined) lines.set(event.line, event);
      if (event.event === 'end') over = true;
      woken.resolve();
    },
    close: (): void => {
      over = true;
      woken.resolve();
    },
    /** The lines that follow that one without a gap. */
    after: (told: number): LoggedLine[] => {
      const next: LoggedLine[] = [];
      for (const number of lines.keys()) if (number <= told) lines.delete(number);
      for (let line = lines.get(told + 1); line; line = lines.get(told + 1 + next.length)) next.push(line);
      return next;
    },
    /** Whether lines are missing between that one and those that were heard. */
    hasGap: (told: number): boolean => lines.keys().some((line) => line > told),
    next: async (): Promise<void> => {
      await woken.promise;
      woken = Promise.withResolvers();
    },
  };
};

/**
 * Each line once and in order: those that were written before this listener heard, from the rows; then as they come.
 * A line that got lost on the way leaves a gap in the numbers.
 */
const tellWhileItRuns = async (telling: Telling, heard: ReturnType<typeof hearing>): Promise<void> => {
  const { deps, row } = telling;
  for (let isMissing = true; !heard.isOver(); isMissing = heard.hasGap(telling.told)) {
    if (isMissing) await tell(telling, await logLinesAfter(deps.db, row.id, telling.told).catch(() => []));
    for (let lines = heard.after(telling.told); lines.length > 0; lines = heard.after(telling.told))
      await tell(telling, lines);
    if (heard.isOver()) return;
    await (heard.hasGap(telling.told) ? pause(lookEveryMs) : heard.next());
  }
};

const follow = async (telling: Telling, followed: Followed, projectId: string): Promise<void> => {
  const { stream, row } = telling;
  const heard = hearing();
  const stop = await followed.follow({ id: row.id, project_id: projectId }, heard.hear);
  stream.body.once('close', () => {
    heard.close();
    stop();
  });
  if (stream.body.destroyed) return stop();
  const run = async (): Promise<void> => {
    await pause(rowsLagMs);
    await tellWhileItRuns(telling, heard);
    const end = stream.body.destroyed ? undefined : await recorded(telling);
    if (end) await tellEnd(telling, end);
    else stream.end();
  };
  run().catch(() => stream.body.destroy());
};

/**
 * The log of a run as server-sent events: `log` with `{ts, level, message}`, what was written before first, then as it
 * comes; at last `end` with the whole invocation.
 * @throws {ServiceError} `not_found`, `rate_limited`
 */
export const invocationEvents = async (
  deps: Deps,
  of: { readonly functionId: string; readonly id: string },
  who: { readonly projectId: string; readonly userId: string; readonly signInId: string },
): Promise<RawReply> => {
  const row = await getInvocation(deps.db, of.functionId, of.id);
  return listen(deps, { ...who, jobId: of.id }, async (followed, stream) => {
    const telling: Telling = { deps, stream, row, told: 0 };
    if (goesOn(row)) return follow(telling, followed, who.projectId);
    // Not waited for: it is read only once it is answered.
    void tellEnd(telling, row);
  });
};
