import type { Context } from 'koa';
import { z } from 'zod';
import { type Live, type Snapshot, createLive } from '#domain/ops/ops.ts';
import { ServiceError } from '#lib/errors.ts';
import { requireOperator } from '#api/auth/operator.ts';
import type { Deps } from '#api/deps.ts';
import { overviewOf, snapshot as snapshotShape } from './shapes.ts';
import { eventStreamHeaders, eventStreamType, eventText, openEventStream } from '#api/streams/sse.ts';

const maxListeners = 100;
// After that the browser reconnects by itself, and its session is checked again.
const maxMs = 10 * 60_000;

const eventOf = (snapshot: Snapshot | null): string =>
  snapshot === null ? eventText('trouble', {}) : eventText('snapshot', z.encode(snapshotShape, snapshot));

/** Each snapshot is written as text once, for all who listen. */
const asText = (): ((snapshot: Snapshot | null) => string) => {
  let latest: { readonly of: Snapshot | null; readonly text: string } | undefined;
  return (snapshot) => {
    if (latest === undefined || latest.of !== snapshot) latest = { of: snapshot, text: eventOf(snapshot) };
    return latest.text;
  };
};

/** `GET /ops/api/live`: a snapshot of queues and workers each second, as server-sent events. */
export const opsLive = (deps: Deps): ((ctx: Context) => void) => {
  const live: Live = createLive(overviewOf(deps));
  const textOf = asText();
  let listeners = 0;
  return (ctx) => {
    requireOperator(ctx, deps);
    if (listeners >= maxListeners) {
      throw new ServiceError('rate_limited', 'Too many pages are listening.', { headers: { 'Retry-After': '60' } });
    }
    listeners += 1;
    const stream = openEventStream({
      goesOn: deps.health.accepting,
      maxMs,
      onClose: () => {
        listeners -= 1;
        stop();
      },
    });
    const stop = live.listen((snapshot) => stream.sendText(textOf(snapshot)));
    ctx.set(eventStreamHeaders);
    ctx.type = eventStreamType;
    ctx.body = stream.body;
  };
};
