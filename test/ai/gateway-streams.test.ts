import test from 'ava';
import type { ChatStream, TimedPiece } from '#domain/ai/gateway/types.ts';
import { ServiceError } from '#lib/errors.ts';
import { until } from '#test/support/until.ts';
import { chatRequest, gatewayAlone, knownModel } from './gateway-alone.ts';

const priced = { models: [knownModel('openai', 'gpt-4o')] };

interface Read {
  readonly text: string;
  readonly error: ServiceError | null;
}

/** To its end, whichever it is. */
const read = async ({ pieces }: ChatStream, each: (batch: readonly TimedPiece[]) => void = () => undefined) => {
  let text = '';
  try {
    for await (const batch of pieces) {
      text += batch.map((piece) => piece.text).join('');
      each(batch);
    }
    return { text, error: null } satisfies Read;
  } catch (error) {
    if (error instanceof ServiceError) return { text, error } satisfies Read;
    throw error;
  }
};

test('a stream comes in pieces with their times, and ends with what was used', async (t) => {
  const { gateway, caller, calls } = await gatewayAlone(t, priced);
  const stream = await gateway.stream({ ...caller, kind: 'stream' }, chatRequest('hello'));
  t.throws(() => stream.end());
  let last = 0;
  const { text, error } = await read(stream, (batch) => {
    t.true(batch.length > 0);
    for (const { elapsedMs } of batch) {
      t.true(elapsedMs >= last);
      last = elapsedMs;
    }
  });
  t.is(error, null);
  t.is(text, 'You said: hello');
  const end = stream.end();
  t.like(end, { finish: 'stop', tokensSource: 'reported', model: 'gpt-4o' });
  t.true(end.ttftMs <= end.latencyMs);
  t.is(calls.length, 1);
  t.like(calls[0]?.end, { status: 'success', usage: end.usage, errorCode: null });
  t.is(calls[0]?.intent.kind, 'stream');
  t.not(calls[0]?.end?.ttftMs, null);
});

const breaks = [
  ['CUT', 'provider_unavailable'],
  ['CUTEVENT', 'provider_unavailable'],
  ['CUTUTF8', 'provider_unavailable'],
  ['CUTCLEAN', 'provider_unavailable'],
  ['MALFORMED', 'provider_bad_output'],
  ['HUGE:2000000', 'provider_bad_output'],
  ['STALL', 'provider_timeout'],
] as const;
for (const dialect of ['openai', 'anthropic', 'google'] as const) {
  for (const [word, code] of breaks) {
    test(`${dialect}: ${word} after some text is an error of the stream, once, with what came until then`, async (t) => {
      const model = `${dialect}/m`;
      const { gateway, caller, calls, upstream } = await gatewayAlone(t, {
        keys: (server) => ({ [dialect]: server[dialect] }),
        models: [knownModel(dialect, 'm')],
        ...(word === 'STALL' && { times: { idleMs: 100 } }),
      });
      const stream = await gateway.stream(caller, chatRequest(word, { model }));
      const { text, error } = await read(stream);
      t.is(error?.code, code, error?.message);
      t.not(text, '');
      t.throws(() => stream.end());
      t.is(upstream.requests.length, 1);
      t.like(calls[0]?.end, { status: 'error', errorCode: code });
      t.true((calls[0]?.end?.usage?.completion_tokens ?? 0) > 0);
      t.true((calls[0]?.end?.costNanoUsd ?? 0) > 0);
    });
  }

  test(`${dialect}: an error event in a good stream is an error, before the first piece and after it`, async (t) => {
    const { gateway, caller, calls } = await gatewayAlone(t, { keys: (server) => ({ [dialect]: server[dialect] }) });
    const model = `${dialect}/m`;
    for (const word of ['ERROREVENT', 'ERRORFIRST']) {
      const opened = gateway.stream(caller, chatRequest(word, { model }));
      // OpenAI's first event names the role: a stream has begun with it.
      const { error } = await opened.then(read, (fault: unknown) => ({ error: fault }));
      t.true(error instanceof ServiceError && error.code === 'provider_unavailable', String(error));
    }
    t.deepEqual(
      calls.map(({ end }) => end?.status),
      ['error', 'error'],
    );
  });
}

test('what breaks before its first piece is an error, asked once, recorded once', async (t) => {
  const { gateway, caller, calls, upstream } = await gatewayAlone(t, { times: { idleMs: 500, firstByteMs: 500 } });
  const words = ['CUTFIRST', 'CUTCLEANFIRST', 'STALLFIRST', 'RESETHEADERS', 'BLACKHOLE'];
  for (const word of words) {
    const { error } = await gateway
      .stream(caller, chatRequest(word))
      .then(read, (fault: unknown) => ({ error: fault }));
    t.true(error instanceof ServiceError, word);
  }
  t.true(upstream.requests.length <= words.length);
  t.is(calls.length, words.length);
  t.true(calls.every(({ end }) => end?.status === 'error'));
});

test('a stream whose use is not told is estimated from what came', async (t) => {
  const { gateway, caller, calls } = await gatewayAlone(t, priced);
  const stream = await gateway.stream(caller, chatRequest('NOUSAGE'));
  const { text } = await read(stream);
  t.is(stream.end().tokensSource, 'estimated');
  t.is(stream.end().usage.completion_tokens, Math.ceil(text.length / 4));
  t.is(calls[0]?.end?.tokensSource, 'estimated');
});

test.serial('who leaves while a stream comes: the provider is left at once, and what came is recorded', async (t) => {
  const { gateway, caller, calls, client, upstream } = await gatewayAlone(t, priced);
  upstream.answerWith(() => ({ hold: { after: 3, until: new Promise(() => undefined) } }));
  const stream = await gateway.stream(caller, chatRequest('one two three four five'));
  const reading = read(stream, () => undefined);
  await until(() => calls[0] !== undefined && upstream.requests.length === 1);
  const left = performance.now();
  client.leave();
  t.like(calls[0]?.end, { status: 'client_closed', tokensSource: 'estimated', errorCode: null });
  const { error } = await reading;
  t.is(error?.code, 'request_timeout');
  await until(() => upstream.requests[0]?.closedAt !== null);
  t.log(`closed after ${((upstream.requests[0]?.closedAt ?? 0) - left).toFixed(1)} ms`);
  t.is(client.listeners, 0);
});

test('who stops reading has left', async (t) => {
  const { gateway, caller, calls, upstream } = await gatewayAlone(t);
  upstream.answerWith(() => ({ hold: { after: 1, until: new Promise(() => undefined) } }));
  const { pieces } = await gateway.stream(caller, chatRequest('one two three'));
  for await (const batch of pieces) if (batch.length > 0) break;
  t.is(calls[0]?.end?.status, 'client_closed');
  await until(() => upstream.requests[0]?.closedAt !== null);
});

test('who never reads and leaves leaves nothing open', async (t) => {
  const { gateway, caller, calls, client, upstream } = await gatewayAlone(t, { limit: 1 });
  upstream.answerWith(() => ({ hold: { after: 1, until: new Promise(() => undefined) } }));
  await gateway.stream(caller, chatRequest('one two three'));
  client.leave();
  t.is(calls[0]?.end?.status, 'client_closed');
  await until(() => upstream.requests[0]?.closedAt !== null);
  client.aborted = false;
  upstream.answerWith(() => ({}));
  await t.notThrowsAsync(gateway.stream(caller, chatRequest('again')));
});

test('who leaves after the end changes nothing', async (t) => {
  const { gateway, caller, calls, client } = await gatewayAlone(t);
  const stream = await gateway.stream(caller, chatRequest('hello'));
  await read(stream);
  client.leave();
  await stream.pieces[Symbol.asyncIterator]().return?.();
  t.is(calls[0]?.end?.status, 'success');
});

test('a stream goes on when its key is deleted meanwhile', async (t) => {
  const { gateway, caller, upstream, setKeys } = await gatewayAlone(t);
  const { promise, resolve } = Promise.withResolvers<void>();
  upstream.answerWith(() => ({ hold: { after: 1, until: promise } }));
  const stream = await gateway.stream(caller, chatRequest('hello'));
  setKeys({});
  await t.throwsAsync(gateway.stream(caller, chatRequest('hello')), { code: 'provider_not_configured' });
  resolve();
  t.deepEqual(await read(stream), { text: 'You said: hello', error: null });
});

test('under a hard budget a stream gets an end to its answer, all of which is granted before', async (t) => {
  const { gateway, caller, calls, upstream } = await gatewayAlone(t, {
    keys: ({ anthropic }) => ({ anthropic }),
    models: [knownModel('anthropic', 'claude-x', { maxOutput: null })],
    hardBudget: true,
  });
  await read(await gateway.stream(caller, chatRequest('hello', { model: 'anthropic/claude-x' })));
  t.is(upstream.requests[0]?.body.max_tokens, 8192);
  t.true((calls[0]?.intent.reserveNanoUsd ?? 0) >= 8192 * 2000);
});

test('under a hard budget a stream that goes beyond what was granted is broken off', async (t) => {
  const { gateway, caller, calls, upstream } = await gatewayAlone(t, { ...priced, hardBudget: true });
  const { promise, resolve } = Promise.withResolvers<void>();
  t.teardown(resolve);
  const pieces = Array.from({ length: 24 }, () => 'x'.repeat(1000));
  upstream.answerWith(() => ({ pieces, usage: null, hold: { after: 20, until: promise } }));
  const { error } = await read(await gateway.stream(caller, chatRequest('a', { max_tokens: 1000 })));
  t.is(error?.code, 'budget_exceeded');
  // The whole reservation counts for the provider's work meanwhile.
  t.like(calls[0]?.end, { status: 'error', errorCode: 'budget_exceeded', givenUp: true });
  t.true((calls[0]?.end?.usage?.completion_tokens ?? 0) >= 1000);
});

test('without a hard budget no stream is broken off', async (t) => {
  const { gateway, caller, upstream } = await gatewayAlone(t, priced);
  const pieces = Array.from({ length: 24 }, () => 'x'.repeat(1000));
  upstream.answerWith(() => ({ pieces }));
  const { text, error } = await read(await gateway.stream(caller, chatRequest('a', { max_tokens: 10 })));
  t.is(error, null);
  t.is(text.length, 24_000);
});

test('tools, a length that ran out and a filter are told as they are', async (t) => {
  const { gateway, caller } = await gatewayAlone(t);
  for (const [word, finish] of [
    ['TOOLS', 'tool_calls'],
    ['LENGTH', 'length'],
    ['FILTERED', 'content_filter'],
  ] as const) {
    const stream = await gateway.stream(caller, chatRequest(word));
    await read(stream);
    t.is(stream.end().finish, finish);
    t.is((await gateway.chat(caller, chatRequest(word))).answer.finish, finish);
  }
});

// Alone: the times of the others would be its own.
test.serial('a thousand streams at once all come through, and leave nothing behind', async (t) => {
  const { gateway, caller, calls, client, upstream } = await gatewayAlone(t, { ...priced, limit: 1000 });
  const { promise, resolve } = Promise.withResolvers<void>();
  upstream.answerWith(() => ({ hold: { after: 2, until: promise } }));
  const streams = await Promise.all(
    Array.from({ length: 1000 }, (_, i) =>
      gateway.stream({ ...caller, kind: 'stream' }, chatRequest(`number ${i} of many`)),
    ),
  );
  await t.throwsAsync(gateway.stream(caller, chatRequest('one more')), { code: 'too_many_calls' });
  resolve();
  const texts = await Promise.all(streams.map((stream) => read(stream)));
  t.deepEqual(
    texts.map(({ text, error }) => error?.code ?? text),
    Array.from({ length: 1000 }, (_, i) => `You said: number ${i} of many`),
  );
  t.is(calls.filter(({ end }) => end?.status === 'success').length, 1000);
  t.is(client.listeners, 0);
  await t.notThrowsAsync(gateway.chat(caller, chatRequest('room again')));
});
