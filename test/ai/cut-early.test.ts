import test from 'ava';
import type { StreamEnd } from '#domain/ai/gateway/types.ts';
import { ServiceError } from '#lib/errors.ts';
import { patienceMs } from '#test/support/time-outs.ts';
import { chatRequest, gatewayAlone } from './gateway-alone.ts';

const short = { idleMs: 500, firstByteMs: 500 };
const long = { idleMs: patienceMs, firstByteMs: patienceMs };

/** OpenAI's first event names the role, and a stream is open with it; the others' faults come before that. */
const dialects = {
  openai: 'openai/gpt-4o',
  anthropic: 'anthropic/claude-sonnet-4-5',
  google: 'google/gemini-2.5-flash',
};

for (const provider of ['openai', 'anthropic', 'google'] as const) {
  const model = dialects[provider];
  for (const [word, code] of [
    ['CUTFIRST', 'provider_unavailable'],
    ['CUTCLEANFIRST', 'provider_unavailable'],
    // Half a header is no HTTP.
    ['RESETHEADERS', 'provider_bad_output'],
    ['STALLFIRST', 'provider_timeout'],
    ['BLACKHOLE', 'provider_timeout'],
  ] as const) {
    test(`${provider}: ${word} before the first word is ${code}, and no word comes`, async (t) => {
      const { gateway, caller, calls } = await gatewayAlone(t, {
        times: code === 'provider_timeout' ? short : long,
        keys: (upstream) => ({ [provider]: upstream[provider] }),
      });
      let words = '';
      const read = async (): Promise<StreamEnd> => {
        const stream = await gateway.stream(caller, chatRequest(word, { model }));
        for await (const pieces of stream.pieces) words += pieces.map(({ text }) => text).join('');
        return stream.end();
      };
      const error = await t.throwsAsync(read(), { instanceOf: ServiceError });
      t.is(error.code, code);
      t.is(words, '');
      t.deepEqual(
        calls.map(({ end }) => [end?.status, end?.errorCode]),
        [['error', code]],
      );
    });
  }
}
