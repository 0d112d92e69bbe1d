import { type ArenaCaller, type ArenaChat, arenaFailure, arenaTokens, failedEntry } from '#domain/ai/arena.ts';
import type { ChatStream, TimedPiece } from '#domain/ai/gateway/types.ts';
import type { ArenaResult } from '#queues/ai-arena.ts';
import { RawReply } from '../endpoint.ts';
import { type PacedEvents, openPacedEvents } from '#api/streams/paced-events.ts';
import { eventStreamType } from '#api/streams/sse.ts';

interface Contestant {
  readonly model: string;
  /** Its place among the models: one may be named twice. */
  readonly index: number;
}

const textOf = (pieces: readonly TimedPiece[]): string => pieces.map(({ text }) => text).join('');

/** Hands on what a model says; leaving the loop closes its stream. */
const handOn = async (events: PacedEvents, contestant: Contestant, stream: ChatStream): Promise<void> => {
  for await (const pieces of stream.pieces) {
    const chunk = textOf(pieces);
    if (chunk !== '' && !(await events.send({ ...contestant, chunk }))) return;
  }
  const end = stream.end();
  const { provider, latencyMs } = end;
  await events.send({
    ...contestant,
    done: true,
    provider,
    tokens: arenaTokens(end),
    latency_ms: Math.round(latencyMs),
  });
};

interface Streaming {
  readonly arenaCaller: ArenaCaller;
  readonly chat: ArenaChat;
  readonly events: PacedEvents;
  /** The first model has said something: the answer may go out. */
  readonly onStarted: () => void;
}

/** @returns its entry, when it failed before it said anything */
const runContestant = async (
  { arenaCaller, chat, events, onStarted }: Streaming,
  contestant: Contestant,
): Promise<ArenaResult | null> => {
  const of = { model: contestant.model, began: performance.now() };
  let started = false;
  try {
    const stream = await arenaCaller.gateway.stream(arenaCaller.caller, { ...chat, model: contestant.model });
    started = true;
    onStarted();
    await handOn(events, contestant, stream);
    return null;
  } catch (error) {
    const entry = await failedEntry(arenaCaller, of, error);
    const { provider, latency_ms, error: message } = entry;
    await events.send({ ...contestant, done: true, provider, error: message, latency_ms });
    return started ? null : entry;
  }
};

/** Rejects when none has started. */
const runContestants = async (streaming: Streaming, models: readonly string[]): Promise<void> => {
  const entries = await Promise.all(models.map((model, index) => runContestant(streaming, { model, index })));
  const failed = entries.filter((entry) => entry !== null);
  const failure = failed.length === models.length ? arenaFailure(failed) : null;
  if (failure !== null) throw failure;
  await streaming.events.send({ done: true });
  streaming.events.end();
};

/**
 * The answers of several models as they are written: `{model,index,chunk}` events, for each model
 * `{model,index,done:true,provider,tokens,latency_ms}` or `{…,done:true,error:{code,message}}`, at last `{done:true}`.
 * @throws {ServiceError} of `arenaFailure` when all fail before the first word
 */
export const arenaEvents = async (
  arenaCaller: ArenaCaller,
  { models, chat }: { readonly models: readonly string[]; readonly chat: ArenaChat },
): Promise<RawReply> => {
  const events = openPacedEvents();
  const started = Promise.withResolvers<void>();
  const running = runContestants({ arenaCaller, chat, events, onStarted: started.resolve }, models);
  try {
    // The first of several models that answer: after the first event nothing rejects.
    await Promise.race([started.promise, running]);
  } catch (error) {
    events.body.destroy();
    throw error;
  }
  return new RawReply(events.body, eventStreamType);
};
