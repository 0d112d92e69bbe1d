import { inspect } from 'node:util';
import test from 'ava';
import { chatRequest, gatewayAlone, refused } from './gateway-alone.ts';

test('a provider that says 429 without end and without a wait is asked five times', async (t) => {
  const { gateway, caller, upstream, calls } = await gatewayAlone(t);
  upstream.answerWith(() => ({ status: 429, headers: { 'retry-after': '0' } }));
  t.is((await refused(gateway.chat(caller, chatRequest('x')))).code, 'provider_rate_limited');
  t.is(upstream.requests.length, 5);
  t.is(calls.length, 1);
});

test('no error holds the key in another form, whole or in pieces, in whatever way it comes', async (t) => {
  const apiKey = 'sk/proj+Ab1-cdEF2ghIJ3klMN4opQR';
  const { gateway, caller, upstream } = await gatewayAlone(t, { apiKey });
  const unicode = apiKey.replaceAll(/\W/g, (one) => `\\u00${one.charCodeAt(0).toString(16)}`);
  const bodies = [
    apiKey.replaceAll('/', '\\/'),
    unicode,
    encodeURIComponent(apiKey),
    btoa(`user:${apiKey}`),
    apiKey.slice(0, -4),
  ].map((form) => `{"error": {"message": "Bad key ${form}."}}`);
  for (const body of bodies) {
    for (const status of [401, 200]) {
      upstream.answerWith(() => ({ status, body }));
      const error = await refused(gateway.chat(caller, chatRequest(body)));
      t.regex(error.message, /\[key\]/, body);
      const said = inspect(error);
      for (const part of ['Ab1-cdEF', 'opQR', 'Ab1%2', btoa(apiKey).slice(4, 12)])
        t.false(said.includes(part), `${body} → ${said}`);
    }
    upstream.answerWith(() => ({ headers: { 'content-type': 'text/event-stream' }, body: `data: ${body}\n\n` }));
    const error = await refused(gateway.stream(caller, chatRequest(body)));
    t.regex(error.message, /\[key\]/, body);
  }
});

test('a stream that begins without a word and then is silent is too late, whatever bytes came', async (t) => {
  const { gateway, caller } = await gatewayAlone(t, {
    times: { firstByteMs: 50 },
    keys: ({ openai, anthropic, google }) => ({ openai, anthropic, google }),
  });
  for (const model of ['openai/m', 'anthropic/m', 'google/m']) {
    const read = async (): Promise<void> => {
      const { pieces } = await gateway.stream(caller, chatRequest('STALLFIRST', { model }));
      for await (const _ of pieces);
    };
    t.is((await refused(read())).code, 'provider_timeout', model);
  }
});
