import test from 'ava';
import type { DialectName } from '#domain/ai/providers/providers.ts';
import type { FaultKind } from '#domain/ai/providers/dialect.ts';
import { cleanMessage, readFault, retryAfterMsOf } from '#domain/ai/providers/faults.ts';
import { chatWith, faultIn, peerFor, saying } from '#test/support/ai-talk.ts';
import { aiUpstreamFor } from '#test/support/ai-upstream.ts';

const dialects: readonly DialectName[] = ['openai', 'anthropic', 'google'];

const said: readonly (readonly [string, FaultKind])[] = [
  ['ERR400', 'bad_request'],
  ['ERR401', 'auth'],
  ['ERR403', 'auth'],
  ['ERR404', 'model_not_found'],
  ['ERR429:7', 'rate_limited'],
  ['ERR500', 'unavailable'],
  ['ERR503', 'unavailable'],
  ['CTXLEN', 'context_length'],
  ['NOTJSON', 'bad_answer'],
];

for (const dialect of dialects) {
  test(`${dialect}: each error is the fault that it is`, async (t) => {
    const upstream = await aiUpstreamFor(t);
    const peer = peerFor(t, dialect, upstream[dialect]);
    for (const [word, kind] of said) {
      const fault = await faultIn(chatWith(peer, saying(word)));
      t.is(fault.kind, kind, word);
      t.not(fault.message, '', word);
    }
    const refused = peerFor(t, dialect, upstream[dialect], { apiKey: 'a-wrong-key' });
    t.is((await faultIn(chatWith(refused, saying('hello')))).kind, 'auth');
  });
}

const openAi = (status: number, code: string | null, message = 'm') =>
  [status, JSON.stringify({ error: { message, type: 'invalid_request_error', param: null, code } })] as const;
const anthropic = (status: number, type: string, message = 'm') =>
  [status, JSON.stringify({ type: 'error', error: { type, message } })] as const;
const google = (code: number, status: string, message = 'm', details: readonly object[] = []) =>
  [code, JSON.stringify({ error: { code, message, status, details } })] as const;

const cases: readonly (readonly [FaultKind, readonly [number, string]])[] = [
  ['rate_limited', openAi(429, 'insufficient_quota')],
  ['rate_limited', openAi(402, null, 'Insufficient Balance')],
  ['context_length', openAi(400, 'context_length_exceeded')],
  ['context_length', openAi(413, null, 'Please reduce the length of the messages or completion.')],
  ['context_length', openAi(400, null, "This model's maximum prompt length is 131072")],
  ['context_length', openAi(400, null, 'the request exceeds the available context size')],
  ['model_not_found', openAi(400, 'model_not_found')],
  ['model_not_found', openAi(404, null, 'The model `x` does not exist or you do not have access to it.')],
  ['bad_request', openAi(404, null, 'Unknown request URL: POST /chat/completions.')],
  ['bad_request', [404, '<html>404 Not Found: models</html>']],
  ['bad_request', [422, '{"detail": "max_tokens is out of range"}']],
  ['auth', [401, 'Unauthorized']],
  ['auth', [401, '{"error": "no key"}']],
  ['unavailable', [502, '<html>Bad gateway</html>']],
  ['unavailable', [500, '{"error": {"message": "m", "type": "invalid_request_error", "code": "model_not_found"}}']],
  ['unavailable', anthropic(529, 'overloaded_error')],
  ['context_length', anthropic(400, 'invalid_request_error', 'prompt is too long: 210000 tokens > 200000 maximum')],
  ['bad_request', anthropic(400, 'invalid_request_error', 'max_tokens: 1 is too low')],
  ['model_not_found', anthropic(404, 'not_found_error', 'model: claude-x')],
  ['auth', anthropic(403, 'permission_error')],
  ['bad_request', anthropic(413, 'request_too_large')],
  [
    'auth',
    google(400, 'INVALID_ARGUMENT', 'API key not valid. Please pass a valid API key.', [{ reason: 'API_KEY_INVALID' }]),
  ],
  [
    'context_length',
    google(400, 'INVALID_ARGUMENT', 'The input token count (2) exceeds the maximum number of tokens allowed (1).'),
  ],
  ['bad_request', google(400, 'FAILED_PRECONDITION', 'User location is not supported for the API use.')],
  ['model_not_found', google(404, 'NOT_FOUND', 'models/x is not found for API version v1beta')],
  ['unavailable', google(503, 'UNAVAILABLE')],
  ['rate_limited', [429, `[${google(429, 'RESOURCE_EXHAUSTED')[1]}]`]],
  ['rate_limited', [429, '']],
  ['bad_request', [400, 'null']],
  ['bad_request', [418, '{"error": [1, {"message": 5}]}']],
];

for (const [kind, [status, body]] of cases) {
  test(`${status} with ${body.slice(0, 110)} is ${kind}`, (t) => {
    const fault = readFault(status, body, undefined);
    t.is(fault.kind, kind);
    t.is(fault.status, status);
    t.notRegex(fault.message, /html/);
  });
}

test('Retry-After is seconds or a date, and nothing else', (t) => {
  const now = Date.parse('2026-01-01T00:00:00Z');
  t.is(retryAfterMsOf('7', now), 7000);
  t.is(retryAfterMsOf(' 0.5 ', now), 500);
  t.is(retryAfterMsOf('Thu, 01 Jan 2026 00:00:30 GMT', now), 30_000);
  t.is(retryAfterMsOf('Wed, 31 Dec 2025 00:00:00 GMT', now), 0);
  for (const value of [undefined, '', '-1', 'soon', '1e9', '0x10', 'NaN', '99999999999'])
    t.is(retryAfterMsOf(value, now), null);
});

test('a wait that is told in the body counts, the header more; where it is about money nobody waits', (t) => {
  const details = [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '17.5s' }];
  const [status, body] = google(429, 'RESOURCE_EXHAUSTED', 'm', details);
  t.is(readFault(status, body, undefined).retryAfterMs, 17_500);
  t.is(readFault(status, body, '2').retryAfterMs, 2000);
  t.is(readFault(...openAi(429, 'insufficient_quota'), '2').retryAfterMs, null);
});

test("a provider's words are on one line, without control characters, and not long", (t) => {
  t.is(cleanMessage(' a\r\nb\u0000\u001b[31m\u202ec\u2028d '), 'a b [31m c d');
  const long = cleanMessage('😀'.repeat(400));
  t.is(long.length, 500);
  t.true(long.isWellFormed());
});
