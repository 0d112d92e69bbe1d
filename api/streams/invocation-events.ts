import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { type InvocationRow, getInvocation, goesOn } from '#domain/functions/invocations.ts';
import type { Followed, FollowedEvent } from '#domain/jobs/follow.ts';
import { type KeptLine, logLinesAfter } from '#domain/jobs/logs.ts';
import { ServiceError } from '#lib/errors.ts';
import type { Deps } from '#api/deps.ts';
import type { RawReply } from '#api/endpoint.ts';
import { invocation, shownInvocation } from '#api/shapes/functions.ts';
import { listen } from './job-events.ts';
import { type EventStream, eventText } from './sse.ts';

const pollIntervalMs = 100;
/** A line that was sent just before the subscription is on its way to the rows. */
const rowsLagMs = 50;

type LoggedLine = Pick<KeptLine, 'ts' | 'message' | 'fields'> & { readonly level: string };

const textOf = (line: LoggedLine): string =>
  eventText('log', { ts: line.ts, level: line.level, message: line.message, fields: line.fields });

/** The state of one listener: the lines that it has, and where further ones go. */
interface Emission {
  readonly deps: Deps;
  readonly stream: EventStream;
  readonly row: InvocationRow;
  /** The number of lines that were sent. */
  emitted: number;
}

/** A log can be longer than what may lie unread: it goes out as one text, and the next only when that was taken. */
const emit = async (emission: Emission, lines: readonly LoggedLine[], last = ''): Promise<void> => {
  const { stream } = emission;
  emission.emitted += lines.length;
  if (lines.length > 0 || last !== '') stream.sendText(lines.map(textOf).join('') + last);
  if (!stream.body.destroyed && Reflect.get(stream.body, 'writableNeedDrain') === true)
    await Promise.race([once(stream.body, 'drain'), once(stream.body, 'close')]);
};

const emitEnd = async (emission: Emission, row: InvocationRow): Promise<void> => {
  const shown = shownInvocation(row);
  await emit(emission, shown.logs.slice(emission.emitted), eventText('end', z.encode(invocation, shown)));
  emission.stream.end();
};

/** The record of a run whose job has ended: it is written within moments, or when Postgres is back. */
const recorded = async ({ deps, row, stream }: Emission): Promise<InvocationRow | undefined> => {
  while (!stream.body.destroyed && !stream.body.readableEnded) {
    const now = await getInvocation(deps.db, row.function_id, row.id).catch((error: unknown) => {
      if (error instanceof ServiceError && error.code === 'not_found') return undefined;
      return row;
    });
    if (now === undefined || !goesOn(now)) return now;
    await pause(pollIntervalMs);
  }
  return undefined;
};

/** Buffers the events of a run while its earlier lines are sent. */
const createEventBuffer = () => {
  const lines = new Map<number, LoggedLine>();
  let woken = Promise.withResolvers<void>();
  let over = false;
  return {
    isOver: () => over,
    push: (event: FollowedEvent): void => {
      if (event.event === 'log' && event.line !== undefined) lines.set(event.line, event);
      if (event.event === 'end') over = true;
      woken.resolve();
    },
    close: (): void => {
      over = true;
      woken.resolve();
    },
    /** The lines that follow that one without a gap. */
    after: (emitted: number): LoggedLine[] => {
      const next: LoggedLine[] = [];
      for (const number of lines.keys()) if (number <= emitted) lines.delete(number);
      for (let line = lines.get(emitted + 1); line; line = lines.get(emitted + 1 + next.length)) next.push(line);
      return next;
    },
    /** Whether lines are missing between that one and the received ones. */
    hasGap: (emitted: number): boolean => lines.keys().some((line) => line > emitted),
    next: async (): Promise<void> => {
      await woken.promise;
      woken = Promise.withResolvers();
    },
  };
};

/**
 * Sends each line once and in order: earlier lines from the rows, then new ones as they come. A line that got lost on
 * the way leaves a gap in the numbers.
 */
const emitWhileRunning = async (emission: Emission, buffer: ReturnType<typeof createEventBuffer>): Promise<void> => {
  const { deps, row } = emission;
  for (let isMissing = true; !buffer.isOver(); isMissing = buffer.hasGap(emission.emitted)) {
    if (isMissing) await emit(emission, await logLinesAfter(deps.db, row.id, emission.emitted).catch(() => []));
    for (let lines = buffer.after(emission.emitted); lines.length > 0; lines = buffer.after(emission.emitted))
      await emit(emission, lines);
    if (buffer.isOver()) return;
    await (buffer.hasGap(emission.emitted) ? pause(pollIntervalMs) : buffer.next());
  }
};

const follow = async (emission: Emission, followed: Followed, projectId: string): Promise<void> => {
  const { stream, row } = emission;
  const buffer = createEventBuffer();
  const stop = await followed.follow({ id: row.id, project_id: projectId }, buffer.push);
  stream.body.once('close', () => {
    buffer.close();
    stop();
  });
  if (stream.body.destroyed) return stop();
  const run = async (): Promise<void> => {
    await pause(rowsLagMs);
    await emitWhileRunning(emission, buffer);
    const end = stream.body.destroyed ? undefined : await recorded(emission);
    if (end) await emitEnd(emission, end);
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
  return listen(deps, who, async (followed, stream) => {
    const emission: Emission = { deps, stream, row, emitted: 0 };
    if (goesOn(row)) return follow(emission, followed, who.projectId);
    // Not waited for: it is read only once it is answered.
    void emitEnd(emission, row);
  });
};
