import type { FinishReason, TokenUsage } from '#domain/ai/chat.ts';

export interface PlayedTool {
  readonly name: string;
  /** JSON text. */
  readonly arguments: string;
}

/** How a stream of the played provider breaks off. */
type Ending =
  /** The connection is cut. */
  | 'reset'
  /** The answer ends as HTTP wants it, without the dialect's end marker. */
  | 'clean'
  /** Nothing more comes; the connection stays. */
  | 'stall'
  | 'error_event'
  | 'malformed'
  /** One event of `hugeBytes`. */
  | 'huge';

/** The played provider's behaviour for one request. All left out: it answers well. */
export interface Behaviour {
  /** Other than 200: an error in the dialect's form. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** The status of the error. */
  readonly message?: string;
  /** The code of the error, in OpenAI's dialect. */
  readonly code?: string;
  /** Sent as it is, in place of what the dialect would have. */
  readonly body?: string;
  /** The connection is cut: before the status line, or when headers are through. */
  readonly reset?: 'before_headers' | 'after_headers';
  /** Never answers. */
  readonly silent?: boolean;
  /** Waits so long before it answers. */
  readonly delayMs?: number;
  /** Headers go out, the first event waits for this. */
  readonly firstToken?: Promise<unknown>;
  /** The text of the answer; otherwise it echoes the last user message. */
  readonly text?: string;
  /** How the text falls into events; otherwise into words. */
  readonly pieces?: readonly string[];
  readonly tools?: readonly PlayedTool[];
  readonly finish?: FinishReason;
  /** Null: not told. */
  readonly usage?: TokenUsage | null;
  /** After so many pieces of text: goes on when this resolves. */
  readonly hold?: { readonly after: number; readonly until: Promise<unknown> };
  /** Breaks off after so many pieces of text. */
  readonly break?: { readonly after: number; readonly how: Ending; readonly inside?: 'event' | 'character' };
  readonly hugeBytes?: number;
  readonly newline?: '\n' | '\r\n';
  /** Comments and keep-alives between the events. */
  readonly comments?: boolean;
  /** Bytes in one write; otherwise an event is one. */
  readonly writeBytes?: number;
  /** Embeddings: numbers in a vector where the request names none. */
  readonly dimensions?: number;
  /** Embeddings: these vectors, whatever they are. */
  readonly vectors?: readonly unknown[];
}

const overloaded: Behaviour = { status: 503, message: 'The engine is overloaded.' };
const contextLength: Behaviour = {
  status: 400,
  code: 'context_length_exceeded',
  message: "prompt is too long: this model's maximum context length is 8192 tokens, input token count exceeds it.",
};

const broken = (after: number, how: Ending, inside?: 'event' | 'character'): Behaviour => ({
  break: { after, how, ...(inside && { inside }) },
});

/**
 * A word in the last user message (or the first text to embed) that says what the provider does; `:n` is its figure.
 */
const words: Readonly<Record<string, (figure: number | null, seen: number) => Behaviour>> = {
  ERR400: () => ({ status: 400, message: 'The request is not what was expected.' }),
  ERR401: () => ({ status: 401, code: 'invalid_api_key', message: 'Incorrect API key provided.' }),
  ERR403: () => ({ status: 403, message: 'This key has no access to that.' }),
  ERR404: () => ({ status: 404, code: 'model_not_found', message: 'The model does not exist.' }),
  /** `ERR429:7` names 7 s in Retry-After, `ERR429` nothing. */
  ERR429: (figure) => ({
    status: 429,
    code: 'rate_limit_exceeded',
    message: 'Rate limit reached.',
    ...(figure !== null && { headers: { 'retry-after': String(figure) } }),
  }),
  /** Once for each message, then it answers well. */
  ERR429ONCE: (figure, seen) =>
    seen === 0 ? { status: 429, message: 'Rate limit reached.', headers: { 'retry-after': String(figure ?? 0) } } : {},
  ERR500: () => ({ status: 500, message: 'The server had an error.' }),
  /** `ERR500ONCE:2` fails twice. */
  ERR500ONCE: (figure, seen) => (seen < (figure ?? 1) ? { status: 500, message: 'The server had an error.' } : {}),
  ERR503: () => overloaded,
  CTXLEN: () => contextLength,
  QUOTA: () => ({ status: 429, code: 'insufficient_quota', message: 'You exceeded your current quota.' }),
  NOTJSON: () => ({ body: '<html>It works!</html>' }),
  RESET: () => ({ reset: 'before_headers' }),
  RESETONCE: (figure, seen) => (seen < (figure ?? 1) ? { reset: 'before_headers' } : {}),
  RESETHEADERS: () => ({ reset: 'after_headers' }),
  BLACKHOLE: () => ({ silent: true }),
  SLOW: (figure) => ({ delayMs: figure ?? 300 }),
  STALLFIRST: () => broken(0, 'stall'),
  STALL: () => broken(2, 'stall'),
  CUTFIRST: () => broken(0, 'reset'),
  CUT: () => broken(2, 'reset'),
  CUTEVENT: () => broken(2, 'reset', 'event'),
  CUTUTF8: () => ({ pieces: ['one ', 'two ', 'drei ü€😀 '], ...broken(2, 'reset', 'character') }),
  /** A clean end of the answer, without the dialect's end marker. */
  CUTCLEAN: () => broken(2, 'clean'),
  CUTCLEANFIRST: () => broken(0, 'clean'),
  ERRORFIRST: () => broken(0, 'error_event'),
  ERROREVENT: () => broken(2, 'error_event'),
  MALFORMED: () => broken(2, 'malformed'),
  HUGE: (figure) => ({ ...broken(1, 'huge'), hugeBytes: figure ?? 2_000_000 }),
  CRLF: () => ({ newline: '\r\n' }),
  COMMENTS: () => ({ comments: true }),
  BYTES: (figure) => ({ writeBytes: figure ?? 1 }),
  NOUSAGE: () => ({ usage: null }),
  LENGTH: () => ({ finish: 'length' }),
  FILTERED: () => ({ finish: 'content_filter' }),
  TOOLS: () => ({
    text: '',
    tools: [
      { name: 'get_weather', arguments: '{"city":"Zürich","days":2}' },
      { name: 'get_time', arguments: '{}' },
    ],
  }),
};

/**
 * Returns the behaviour that a text requests; null when it has none of the words. `seen`: how often this text came
 * before.
 */
export const behaviourOf = (text: string, seen: number): Behaviour | null => {
  for (const [, word = '', figure] of text.matchAll(/\b([A-Z][A-Z0-9]+)(?::(\d+))?/g)) {
    if (Object.hasOwn(words, word)) return words[word]?.(figure === undefined ? null : Number(figure), seen) ?? null;
  }
  return null;
};
