import test from 'ava';
import type { DialectName } from '#domain/ai/providers/providers.ts';
import { faultIn, peerFor, saying, streamWith } from '#test/support/ai-talk.ts';
import { type AiUpstream, aiUpstreamFor } from '#test/support/ai-upstream.ts';

const dialects: readonly DialectName[] = ['openai', 'anthropic', 'google'];
const said = (text: string): string => `You said: ${text}`;
const reported = (text: string) => ({ prompt_tokens: 11, completion_tokens: said(text).split(' ').length + 1 });

for (const dialect of dialects) {
  const unharmed: readonly (readonly [string, string])[] = [
    ['plain events', 'hello there'],
    ['lines that end with CRLF', 'CRLF hello there'],
    ['comments and keep-alives between the events', 'COMMENTS hello there'],
    ['events that come byte by byte, characters split', 'BYTES:1 grüße 世界 😀'],
    ['events that come in fives of bytes', 'BYTES:5 grüße 世界 😀'],
  ];
  for (const [what, text] of unharmed) {
    test(`${dialect}: a stream with ${what} is whole`, async (t) => {
      const upstream = await aiUpstreamFor(t);
      const received = await streamWith(peerFor(t, dialect, upstream[dialect]), saying(text));
      t.deepEqual(received, {
        text: said(text),
        toolCalls: [],
        finish: 'stop',
        usage: reported(text),
        model: 'some-model',
        complete: true,
      });
    });
  }

  test(`${dialect}: CRLF byte by byte, with comments, is whole`, async (t) => {
    const upstream = await aiUpstreamFor(t);
    upstream.answerWith(() => ({ newline: '\r\n', comments: true, writeBytes: 1 }));
    const received = await streamWith(peerFor(t, dialect, upstream[dialect]), saying('grüße'));
    t.like(received, { text: said('grüße'), complete: true });
  });

  test(`${dialect}: a stream that ends in order without its end marker is not complete, and what came counts`, async (t) => {
    const upstream = await aiUpstreamFor(t);
    const received = await streamWith(peerFor(t, dialect, upstream[dialect]), saying('CUTCLEAN a b c'));
    t.like(received, { text: 'You said: ', complete: false, finish: null });
    t.is(received.usage === null, dialect === 'openai');
    const none = await streamWith(peerFor(t, dialect, upstream[dialect]), saying('CUTCLEANFIRST'));
    t.like(none, { text: '', complete: false });
  });

  for (const [word, text] of [
    ['CUTFIRST', ''],
    ['CUT', 'You said: '],
    ['CUTEVENT', 'You said: '],
    ['CUTUTF8', 'one two '],
  ] as const) {
    test(`${dialect}: a connection that breaks (${word}) is a cut after what came`, async (t) => {
      const upstream = await aiUpstreamFor(t);
      let received = '';
      const work = streamWith(peerFor(t, dialect, upstream[dialect]), saying(`${word} a b c`), (piece) => {
        received += piece;
      });
      const fault = await faultIn(work);
      t.like(fault, { kind: 'cut', status: null });
      t.is(received, text);
      t.notRegex(fault.message, /127\.0\.0\.1|sk-test/);
    });
  }

  test(`${dialect}: an error event in a stream of status 200 is the fault that it tells of`, async (t) => {
    const upstream = await aiUpstreamFor(t);
    const peer = peerFor(t, dialect, upstream[dialect]);
    t.is((await faultIn(streamWith(peer, saying('ERRORFIRST')))).kind, 'unavailable');
    t.is((await faultIn(streamWith(peer, saying('ERROREVENT a b c')))).kind, 'unavailable');
  });

  test(`${dialect}: an event that is no JSON is a bad answer`, async (t) => {
    const upstream = await aiUpstreamFor(t);
    const peer = peerFor(t, dialect, upstream[dialect]);
    t.is((await faultIn(streamWith(peer, saying('MALFORMED a b c')))).kind, 'bad_answer');
  });

  test(`${dialect}: an event of 2 MB is a bad answer, one of 250 KB is none`, async (t) => {
    const upstream = await aiUpstreamFor(t);
    const peer = peerFor(t, dialect, upstream[dialect]);
    const fault = await faultIn(streamWith(peer, saying('HUGE a b c')));
    t.like(fault, { kind: 'bad_answer', message: 'The provider sent an event that is too long.' });
    const large = 'x'.repeat(250_000);
    upstream.answerWith(() => ({ pieces: [large] }));
    t.is((await streamWith(peer, saying('hello'))).text, large);
  });

  test(`${dialect}: usage that is missing is null, and the stream is whole`, async (t) => {
    const upstream = await aiUpstreamFor(t);
    const received = await streamWith(peerFor(t, dialect, upstream[dialect]), saying('NOUSAGE hello'));
    t.like(received, { usage: null, complete: true });
  });

  test(`${dialect}: tool calls come in parts that belong together`, async (t) => {
    const upstream = await aiUpstreamFor(t);
    const received = await streamWith(peerFor(t, dialect, upstream[dialect]), saying('TOOLS'));
    t.is(received.finish, 'tool_calls');
    t.deepEqual(received.toolCalls, [
      { name: 'get_weather', arguments: '{"city":"Zürich","days":2}' },
      { name: 'get_time', arguments: '{}' },
    ]);
  });

  test(`${dialect}: a filtered and a shortened answer say so`, async (t) => {
    const upstream = await aiUpstreamFor(t);
    const peer = peerFor(t, dialect, upstream[dialect]);
    t.is((await streamWith(peer, saying('FILTERED'))).finish, 'content_filter');
    t.is((await streamWith(peer, saying('LENGTH'))).finish, 'length');
  });

  test(`${dialect}: what fails before a stream begins is a fault with its status`, async (t) => {
    const upstream: AiUpstream = await aiUpstreamFor(t);
    const peer = peerFor(t, dialect, upstream[dialect]);
    const fault = await faultIn(streamWith(peer, saying('ERR503')));
    t.like(fault, { kind: 'unavailable', status: 503, message: 'The engine is overloaded.' });
    t.like(await faultIn(streamWith(peer, saying('ERR429:7'))), { kind: 'rate_limited', retryAfterMs: 7000 });
  });
}
