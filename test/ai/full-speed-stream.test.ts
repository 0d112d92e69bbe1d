import test from 'ava';
import { PieceReader } from '#domain/ai/gateway/piece-reader.ts';
import { CallAbort } from '#domain/ai/gateway/running-call.ts';
import { dialectOf } from '#domain/ai/providers/providers.ts';
import { ProviderFault } from '#domain/ai/providers/dialect.ts';
import { EventStream, createSseReader } from '#domain/ai/providers/event-stream.ts';
import { Client, chatRequest, gatewayAlone, knownModel } from './gateway-alone.ts';

const nothing = (): void => undefined;

const eventText = (content: string, finish: string | null = null): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: finish }] })}\n\n`;

const words = Array.from({ length: 500 }, (_, at) => `w${at} `);
const flood = words.map((word) => eventText(word)).join('');
const end = `${eventText('', 'stop')}data: [DONE]\n\n`;

const route = {
  provider: 'openai',
  model: 'm',
  key: { id: 'k', provider: 'openai', version: 1, target: { baseUrl: '', apiKey: 'sk-12345678', isVendor: false } },
  known: knownModel('openai', 'm'),
  hardBudget: false,
} as const;

/** A stream whose events are fed by hand. @param clock what has passed since the call began, in ms */
const open = (clock: () => number = () => 0) => {
  const client = new Client();
  const call: ConstructorParameters<typeof PieceReader>[0] = {
    used: () => ({ reported: null, completionTokens: 0, ttftMs: null }),
    abort: new CallAbort(client),
    route,
    elapsed: clock,
    isWithin: () => true,
    succeed: () => ({ usage: { prompt_tokens: 1, completion_tokens: 1 }, tokensSource: 'reported', latencyMs: 1 }),
    fail: (error) => error,
  };
  const exchange = { awaitFirst: nothing, started: nothing, release: nothing, pause: nothing, resume: nothing };
  const stop = (fault: ProviderFault): void => events.sink.fail(fault);
  const events: EventStream = new EventStream({ ...exchange, stop }, createSseReader());
  client.addEventListener('abort', () => stop(new ProviderFault('cut', 'The client has left.')));
  const reader = new PieceReader(call, events, dialectOf('openai').openStream({ isVendor: false }));
  return { client, reader, feed: (text: string) => events.sink.data(Buffer.from(text)), events };
};

/** How often the event loop has turned, until it is stopped. */
const countTurns = () => {
  let turns = 0;
  let next = setImmediate(function count() {
    turns += 1;
    next = setImmediate(count);
  });
  return { turns: () => turns, stop: () => clearImmediate(next) };
};

interface Batch {
  readonly text: string;
  readonly events: number;
  readonly turn: number;
}

const readAll = async (reader: PieceReader): Promise<{ batches: Batch[]; error: unknown }> => {
  const counter = countTurns();
  const batches: Batch[] = [];
  try {
    for await (const pieces of reader) {
      const text = pieces.map((piece) => piece.text).join('');
      batches.push({ text, events: pieces.length, turn: counter.turns() });
    }
    return { batches, error: null };
  } catch (error) {
    return { batches, error };
  } finally {
    counter.stop();
  }
};

const textOf = (batches: readonly Batch[]): string => batches.map(({ text }) => text).join('');

test('a stream at full speed is parsed in batches of at most 50 events, and other work is done between them', async (t) => {
  const { reader, feed } = open();
  feed(flood + end);
  const { batches, error } = await readAll(reader);
  t.is(error, null);
  t.is(textOf(batches), words.join(''));
  t.true(batches.every(({ events }) => events <= 50));
  t.is(new Set(batches.map(({ turn }) => turn)).size, batches.length, 'each batch has its own turn of the event loop');
  t.is(reader.end().finish, 'stop');
});

test('a batch ends after 2 ms, however few events it holds', async (t) => {
  let now = 0;
  const { reader, feed } = open(() => (now += 1));
  feed(flood + end);
  const { batches } = await readAll(reader);
  t.is(textOf(batches), words.join(''));
  t.true(batches.every(({ events }) => events <= 3));
  t.is(new Set(batches.map(({ turn }) => turn)).size, batches.length);
});

test('a few events are given in the turn of the event loop in which they come', async (t) => {
  const { reader, feed } = open();
  for (const count of [1, 3, 20, 2]) {
    const counter = countTurns();
    const step = reader.next();
    feed(
      words
        .slice(0, count)
        .map((word) => eventText(word))
        .join(''),
    );
    t.is((await step).value?.length, count);
    t.is(counter.turns(), 0);
    counter.stop();
  }
  const last = reader.next();
  const counter = countTurns();
  feed(end);
  t.is((await last).value?.length, 1);
  t.true((await reader.next()).done);
  t.is(counter.turns(), 0);
  counter.stop();
});

test('what came before a fault in a stream at full speed is given first, in its order', async (t) => {
  const { reader, feed } = open();
  feed(`${flood}data: {"x\n\n${flood}`);
  const { batches, error } = await readAll(reader);
  t.is(textOf(batches), words.join(''));
  t.true(error instanceof ProviderFault && error.kind === 'bad_answer');
});

test('a stream at full speed that ends without its end marker is cut, after all that came', async (t) => {
  const { reader, feed, events } = open();
  feed(flood);
  events.sink.end();
  const { batches, error } = await readAll(reader);
  t.is(textOf(batches), words.join(''));
  t.true(error instanceof ProviderFault && error.kind === 'cut');
});

test('for a client that leaves between two batches nothing more is parsed', async (t) => {
  const { reader, feed, client } = open();
  feed(flood + end);
  t.is((await reader.next()).value?.length, 50);
  const second = reader.next();
  client.leave();
  const error = await t.throwsAsync(second);
  t.true(error instanceof ProviderFault && error.kind === 'cut');
});

test('a flood of events from a real server comes whole, and is recorded as a success', async (t) => {
  const { gateway, caller, calls } = await gatewayAlone(t);
  const long = words.join('');
  const stream = await gateway.stream(caller, chatRequest(long));
  let text = '';
  for await (const pieces of stream.pieces) text += pieces.map((piece) => piece.text).join('');
  t.is(text.trim(), `You said: ${long}`.trim());
  t.is(calls[0]?.end?.status, 'success');
});
