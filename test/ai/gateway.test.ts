import test from 'ava';
import { ServiceError } from '#lib/errors.ts';
import { until } from '#test/support/until.ts';
import { chatRequest, gatewayAlone, knownModel, refused, testKey } from './gateway-alone.ts';

const priced = { models: [knownModel('openai', 'gpt-4o')] };

test('a chat is answered, and recorded with what it cost', async (t) => {
  const { gateway, caller, calls, upstream } = await gatewayAlone(t, priced);
  const outcome = await gateway.chat(caller, chatRequest('hello'));
  t.is(outcome.answer.content, 'You said: hello');
  t.is(outcome.provider, 'openai');
  t.deepEqual(outcome.usage, { prompt_tokens: 11, completion_tokens: 4 });
  t.is(outcome.tokensSource, 'reported');
  t.is(upstream.requests[0]?.body.model, 'gpt-4o');
  t.is(upstream.requests[0]?.headers.authorization, `Bearer ${testKey}`);
  t.is(calls.length, 1);
  const { intent, end } = calls[0] ?? {};
  t.like(intent, { kind: 'chat', provider: 'openai', model: 'gpt-4o', requestId: 'a-request' });
  t.like(end, { status: 'success', costNanoUsd: 11 * 1000 + 4 * 2000, errorCode: null, ttftMs: null });
});

for (const [dialect, model] of [
  ['anthropic', 'anthropic/claude-x'],
  ['google', 'google/gemini-x'],
] as const) {
  test(`${dialect} is asked in its own dialect, whole and as a stream`, async (t) => {
    const { gateway, caller } = await gatewayAlone(t, { keys: (upstream) => ({ [dialect]: upstream[dialect] }) });
    t.is((await gateway.chat(caller, chatRequest('hello', { model }))).answer.content, 'You said: hello');
    const { pieces, end } = await gateway.stream(caller, chatRequest('hello', { model }));
    let text = '';
    for await (const batch of pieces) text += batch.map((piece) => piece.text).join('');
    t.is(text, 'You said: hello');
    t.is(end().finish, 'stop');
  });
}

test('what a provider does not tell is estimated from the lengths, and said so', async (t) => {
  const { gateway, caller, calls } = await gatewayAlone(t, priced);
  const outcome = await gateway.chat(caller, chatRequest('NOUSAGE 0123456789012345678901'));
  t.is(outcome.tokensSource, 'estimated');
  t.deepEqual(outcome.usage, { prompt_tokens: 8, completion_tokens: 10 });
  t.like(calls[0]?.end, { status: 'success', tokensSource: 'estimated', costNanoUsd: 8 * 1000 + 10 * 2000 });
});

const faults = [
  ['ERR400', 'provider_rejected', 400],
  ['ERR401', 'provider_auth_failed', 424],
  ['ERR403', 'provider_auth_failed', 424],
  ['ERR404', 'model_not_found', 404],
  ['ERR429:11', 'provider_rate_limited', 429],
  ['ERR429', 'provider_rate_limited', 429],
  ['QUOTA', 'provider_rate_limited', 429],
  ['CTXLEN', 'context_length_exceeded', 400],
  ['NOTJSON', 'provider_bad_output', 502],
] as const;
for (const [word, code, status] of faults) {
  test(`${word} is ${code}, asked once, recorded once`, async (t) => {
    const { gateway, caller, calls, upstream } = await gatewayAlone(t, priced);
    for (const kind of ['chat', 'stream'] as const) {
      if (kind === 'stream' && word === 'NOTJSON') continue;
      const before = upstream.requests.length;
      const error = await refused(gateway[kind](caller, chatRequest(word)));
      t.is(error.code, code);
      t.is(error.status, status);
      t.is(upstream.requests.length, before + 1);
      t.like(calls.at(-1)?.end, { status: 'error', errorCode: code });
      // An answer that cannot be parsed may have cost something all the same.
      t.is(calls.at(-1)?.end?.usage === null, word !== 'NOTJSON');
      if (status === 429) t.is(error.headers['Retry-After'], word === 'ERR429:11' ? '11' : '30');
    }
  });
}

for (const [word, tries, ok] of [
  ['ERR500ONCE', 2, true],
  ['ERR500ONCE:2', 3, true],
  ['ERR500ONCE:3', 3, false],
  ['ERR503', 3, false],
  ['RESET', 3, false],
  ['RESETONCE', 2, true],
  ['ERR429ONCE', 2, true],
] as const) {
  test(`${word} is asked ${tries} times: ${ok ? 'then it is well' : 'then it is 502'}; one row`, async (t) => {
    const { gateway, caller, calls, upstream } = await gatewayAlone(t);
    for (const kind of ['chat', 'stream'] as const) {
      const before = upstream.requests.length;
      const call = gateway[kind](caller, chatRequest(`${word} ${kind}`));
      if (ok) await t.notThrowsAsync(call);
      else t.is((await refused(call)).code, 'provider_unavailable');
      t.is(upstream.requests.length, before + tries);
    }
    t.is(calls.length, 2);
    t.is(calls[0]?.end?.status, ok ? 'success' : 'error');
  });
}

test('a 429 is waited out as often as it fits into ten seconds', async (t) => {
  const { gateway, caller, upstream } = await gatewayAlone(t);
  upstream.answerWith(() => ({ status: 429, headers: { 'retry-after': upstream.requests.length === 1 ? '0' : '10' } }));
  t.is((await refused(gateway.chat(caller, chatRequest('x')))).headers['Retry-After'], '10');
  t.is(upstream.requests.length, 2);
});

test('nobody at the address is 502, an address that is not open 400, silence 504', async (t) => {
  const nobody = await gatewayAlone(t, { keys: () => ({ openai: 'http://127.0.0.1:9/v1' }) });
  t.is((await refused(nobody.gateway.chat(nobody.caller, chatRequest('x')))).code, 'provider_unavailable');
  const shut = await gatewayAlone(t, { keys: () => ({ openai: 'http://10.1.2.3/v1' }) });
  t.is((await refused(shut.gateway.chat(shut.caller, chatRequest('x')))).code, 'egress_refused');
  const silent = await gatewayAlone(t, { times: { firstByteMs: 50 } });
  const error = await refused(silent.gateway.chat(silent.caller, chatRequest('BLACKHOLE')));
  t.is(error.code, 'provider_timeout');
  t.is(silent.upstream.requests.length, 1);
  t.is(silent.calls[0]?.end?.errorCode, 'provider_timeout');
});

test('no error holds the key, also when the provider repeats it', async (t) => {
  const { gateway, caller, upstream, logged } = await gatewayAlone(t);
  const message = `Incorrect API key provided: ${testKey}. You said hello.`;
  for (const status of [400, 401, 404, 429, 500]) {
    upstream.answerWith(() => ({ status, message }));
    const error = await refused(gateway.chat(caller, chatRequest(`hello ${status}`)));
    t.false(`${error.message} ${JSON.stringify(error.details)} ${error.hint}`.includes(testKey));
  }
  t.is(logged(), '');
});

test('who leaves while a whole answer is awaited: the provider’s connection is closed', async (t) => {
  const { gateway, caller, calls, client, upstream } = await gatewayAlone(t, priced);
  const call = gateway.chat(caller, chatRequest('BLACKHOLE'));
  await until(() => upstream.requests.length === 1);
  client.leave();
  t.is((await refused(call)).code, 'request_timeout');
  await until(() => upstream.requests[0]?.closedAt !== null);
  t.like(calls[0]?.end, { status: 'client_closed', tokensSource: 'estimated' });
  t.is(calls[0]?.end?.usage?.completion_tokens, 0);
  t.is(client.listeners, 0);
});

test('who leaves before the provider is asked, or in a pause between tries, costs no further request', async (t) => {
  const { gateway, caller, calls, client, upstream } = await gatewayAlone(t);
  upstream.answerWith(() => ({ status: 429, headers: { 'retry-after': '9' } }));
  const call = gateway.chat(caller, chatRequest('x'));
  await until(() => upstream.requests[0]?.finished === true);
  client.leave();
  await refused(call);
  await refused(gateway.chat(caller, chatRequest('x')));
  t.is(upstream.requests.length, 1);
  t.deepEqual(
    calls.map(({ end }) => end?.status),
    ['client_closed', 'client_closed'],
  );
});

test('a call that cannot be recorded is 503, and its provider is left', async (t) => {
  const down = new ServiceError('dependency_unavailable', 'down');
  const { gateway, caller, upstream, calls } = await gatewayAlone(t, { recorded: () => Promise.reject(down) });
  for (const kind of ['chat', 'stream'] as const) {
    t.is(await refused(gateway[kind](caller, chatRequest('BLACKHOLE'))), down);
  }
  t.true(upstream.requests.every(({ closedAt, finished }) => closedAt !== null || !finished));
  t.deepEqual(
    calls.map(({ end }) => end?.errorCode),
    ['dependency_unavailable', 'dependency_unavailable'],
  );
});

test('nothing of an answer goes out before the call is recorded', async (t) => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const { gateway, caller, upstream } = await gatewayAlone(t, { recorded: () => promise });
  let answered = 0;
  const both = [gateway.chat(caller, chatRequest('x')), gateway.stream(caller, chatRequest('y'))];
  for (const call of both) call.then(() => (answered += 1)).catch(() => undefined);
  await until(() => upstream.requests.length === 2 && upstream.requests.every(({ finished }) => finished));
  t.is(answered, 0);
  resolve();
  await Promise.all(both);
  t.is(answered, 2);
});

test('under a hard budget the provider is asked once it is granted', async (t) => {
  const { promise, reject } = Promise.withResolvers<void>();
  const options = { ...priced, hardBudget: true, recorded: () => promise };
  const { gateway, caller, upstream, calls } = await gatewayAlone(t, options);
  const call = gateway.chat(caller, chatRequest('x', { max_tokens: 100 }));
  // An earlier message would arrive before it.
  await fetch(`${upstream.openai}/models`);
  t.deepEqual(
    upstream.requests.map(({ kind }) => kind),
    ['models'],
  );
  const spent = new ServiceError('budget_exceeded', 'spent');
  reject(spent);
  t.is(await refused(call), spent);
  t.is(upstream.requests.length, 1);
  // One byte, and what stands around it.
  t.is(calls[0]?.intent.reserveNanoUsd, 21 * 1000 + 100 * 2000);
});

test('under a hard budget an answer without an end gets the one that was granted', async (t) => {
  const models = [knownModel('openai', 'known'), knownModel('openai', 'unknown', { maxOutput: null })];
  const { gateway, caller, upstream, calls } = await gatewayAlone(t, { models, hardBudget: true });
  await gateway.chat(caller, chatRequest('x', { model: 'known' }));
  await gateway.chat(caller, chatRequest('x', { model: 'unknown' }));
  t.deepEqual(
    upstream.requests.map(({ body }) => body.max_tokens),
    [1000, 8192],
  );
  t.is(calls[1]?.intent.reserveNanoUsd, 21 * 1000 + 8192 * 2000);
});

test('embeddings are asked for in as many requests as the provider needs, as one call', async (t) => {
  const keys = { keys: (upstream: { google: string }) => ({ google: upstream.google }) };
  const { gateway, caller, calls, upstream } = await gatewayAlone(t, keys);
  const input = Array.from({ length: 250 }, (_, i) => `text ${i}`);
  const outcome = await gateway.embed(caller, { model: 'google/gemini-embedding-001', input });
  t.is(outcome.vectors.length, 250);
  t.is(outcome.dimensions, 8);
  t.true(upstream.requests.length > 1);
  t.is(calls.length, 1);
  const alone = await gateway.embed(caller, { model: 'google/gemini-embedding-001', input: ['text 201'] });
  t.deepEqual(outcome.vectors[201], alone.vectors[0]);
});

test('a provider without embeddings, and a model of the other type, are 400', async (t) => {
  const models = [knownModel('openai', 'gpt-4o'), knownModel('openai', 'e', { type: 'embedding' })];
  const keys = { keys: (upstream: { openai: string }) => ({ groq: upstream.openai, openai: upstream.openai }), models };
  const { gateway, caller, calls } = await gatewayAlone(t, keys);
  for (const model of ['groq/x', 'openai/gpt-4o']) {
    t.is((await refused(gateway.embed(caller, { model, input: ['a'] }))).code, 'not_supported');
  }
  t.is((await refused(gateway.chat(caller, chatRequest('a', { model: 'e' })))).code, 'not_supported');
  t.is(calls.length, 0);
});

test('a test of a key is an answer whatever the provider does, and a row of its own', async (t) => {
  const { gateway, caller, calls, upstream } = await gatewayAlone(t);
  const testCaller = { ...caller, kind: 'test' } as const;
  t.like(await gateway.test(testCaller, 'openai'), { ok: true, error: null });
  upstream.answerWith(() => ({ status: 401, message: `bad ${testKey}` }));
  const bad = await gateway.test(testCaller, 'openai');
  t.false(bad.ok);
  t.regex(bad.error ?? '', /^OpenAI refused the key of this project/);
  t.false(bad.error?.includes(testKey));
  upstream.answerWith(() => ({ status: 503 }));
  t.false((await gateway.test(testCaller, 'openai')).ok);
  t.is(upstream.requests.length, 3);
  t.deepEqual(
    calls.map(({ intent, end }) => [intent.kind, end?.status, end?.costNanoUsd]),
    [
      ['test', 'success', 0],
      ['test', 'error', 0],
      ['test', 'error', 0],
    ],
  );
  t.is((await refused(gateway.test(testCaller, 'groq'))).code, 'provider_not_configured');
});

test('more calls at once than the plan allows are 429; those that have ended make room', async (t) => {
  const { gateway, caller, client, upstream, calls } = await gatewayAlone(t, { limit: 2 });
  const both = [gateway.chat(caller, chatRequest('BLACKHOLE')), gateway.stream(caller, chatRequest('BLACKHOLE'))];
  for (const call of both) call.catch(() => undefined);
  const error = await refused(gateway.chat(caller, chatRequest('x')));
  t.is(error.code, 'too_many_calls');
  t.is(error.headers['Retry-After'], '1');
  t.is(calls.length, 2);
  // Jobs have the gate of their queue.
  await t.notThrowsAsync(gateway.chat({ ...caller, kind: 'arena' }, chatRequest('x')));
  await until(() => upstream.requests.length === 3);
  client.leave();
  await Promise.allSettled(both);
  client.aborted = false;
  await t.notThrowsAsync(gateway.chat(caller, chatRequest('x')));
});

test('a process that is stopped closes its calls as incomplete', async (t) => {
  const { gateway, caller, calls, upstream } = await gatewayAlone(t);
  const call = gateway.chat(caller, chatRequest('BLACKHOLE'));
  await until(() => upstream.requests.length === 1);
  await gateway.close();
  t.is((await refused(call)).code, 'dependency_unavailable');
  t.is(calls[0]?.end?.status, 'incomplete');
});
