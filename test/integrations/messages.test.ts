import test from 'ava';
import { type ChatEvent, discordPauseSeconds, messageOf } from '#domain/webhooks/chat-message.ts';

const event = (fields: Partial<ChatEvent> = {}): ChatEvent => ({
  event: 'table.users.INSERT',
  project: 'Shop',
  timestamp: new Date('2026-01-02T03:04:05.678Z'),
  data: '{"row":{"id":7,"name":"Ann"}}',
  ...fields,
});

interface Text {
  readonly type: string;
  readonly text: string;
}
interface SlackBody {
  readonly text: string;
  readonly parse: string;
  readonly link_names: boolean;
  readonly unfurl_links: boolean;
  readonly unfurl_media: boolean;
  readonly blocks: readonly [{ text: Text }, { text: Text & { verbatim: boolean } }, { elements: [Text] }];
}
interface DiscordBody {
  readonly content?: string;
  readonly allowed_mentions: { readonly parse: string[] };
  readonly embeds: [{ title: string; description: string; footer: { text: string }; timestamp: string }];
}

const slack = (fields?: Partial<ChatEvent>): SlackBody =>
  JSON.parse(messageOf('slack', event(fields)).body) as SlackBody;
const discord = (fields?: Partial<ChatEvent>): DiscordBody =>
  JSON.parse(messageOf('discord', event(fields)).body) as DiscordBody;

test('a message says what happened, in which project, and the fields of it', (t) => {
  const { text, blocks } = slack();
  t.is(text, 'A row was inserted into users (Shop)');
  t.is(blocks[0].text.text, 'A row was inserted into users');
  t.is(blocks[1].text.text, '```\nid: 7\nname: Ann\n```');
  t.is(blocks[2].elements[0].text, 'Shop · table.users.INSERT · 2026-01-02T03:04:05.678Z');
  const [embed] = discord().embeds;
  t.is(embed.title, 'A row was inserted into users');
  t.is(embed.description, '```\nid: 7\nname: Ann\n```');
  t.is(embed.timestamp, '2026-01-02T03:04:05.678Z');
});

test('what an event is about is found where each provider puts it', (t) => {
  const about = (name: string, data: unknown) => slack({ event: name, data: JSON.stringify(data) }).blocks[1].text.text;
  const amount = { amount: 12 };
  const expected = '```\namount: 12\n```';
  t.is(about('payments.stripe.charge.succeeded', { id: 'evt', data: { object: amount } }), expected);
  t.is(about('payments.paypal.PAYMENT.SALE.COMPLETED', { id: 'WH', resource: amount }), expected);
  t.is(about('payments.razorpay.payment.captured', { payload: { payment: { entity: amount } } }), expected);
  t.is(about('functions.error', amount), expected);
  t.is(slack({ event: 'payments.stripe.invoice.paid' }).blocks[0].text.text, 'Stripe: invoice.paid');
});

test('numbers stand as they were written, plain values before nested ones', (t) => {
  const data = '{"row":{"deep":{"a":[1]},"big":12345678901234567890,"none":null}}';
  t.is(slack({ data }).blocks[1].text.text, '```\nbig: 12345678901234567890\nnone: null\ndeep: {"a":[1]}\n```');
});

const calls = [
  '<!channel>',
  '<!here|here>',
  '<!subteam^S1>',
  '<@U012AB3CD>',
  '<#C024BE7LR>',
  '@everyone',
  '@here',
  '@channel',
  '<@&5>',
];
const hostile = calls.join(' ');

for (const [where, fields] of Object.entries({
  'a value': { data: JSON.stringify({ row: { name: hostile } }) },
  'the name of a field': { data: JSON.stringify({ row: { [hostile]: 1 } }) },
  'the project': { project: hostile },
  'the table': { event: `table.${hostile}.INSERT` },
  'data that are no object': { data: JSON.stringify(hostile) },
  'data that are no JSON': { data: hostile },
} satisfies Record<string, Partial<ChatEvent>>)) {
  test(`nobody is called by what stands in ${where}`, (t) => {
    for (const kind of ['slack', 'discord'] as const) {
      const { body } = messageOf(kind, event(fields));
      for (const call of calls) t.false(body.includes(call), `${kind}: ${call}`);
      t.false(/@(everyone|here|channel)/i.test(body), kind);
      t.false(/<[!@#]/.test(body), kind);
    }
  });
}

test('links are not unfolded, names not looked up, mentions not parsed', (t) => {
  const message = slack({ data: JSON.stringify({ row: { url: 'https://evil.example/<https://a|b>' } }) });
  t.like(message, { parse: 'none', link_names: false, unfurl_links: false, unfurl_media: false });
  t.true(message.blocks[1].text.verbatim);
  t.false(JSON.stringify(message).includes('<https'));
  const embedded = discord();
  t.deepEqual(embedded.allowed_mentions, { parse: [] });
  // Links in an embed are not unfolded; those of the content would be.
  t.is(embedded.content, undefined);
});

test('Slack’s own characters are escaped once', (t) => {
  t.is(
    slack({ data: '{"row":{"a":"x < y && y > z &amp;"}}' }).blocks[1].text.text,
    '```\na: x &lt; y &amp;&amp; y &gt; z &amp;amp;\n```',
  );
});

test('no value ends the block of code, or makes a line of its own', (t) => {
  const data = JSON.stringify({ row: { a: '```\n*bold* ```', b: 'x\r\ny\u2028z\u0000\u202E' } });
  for (const block of [slack({ data }).blocks[1].text.text, discord({ data }).embeds[0].description]) {
    t.is(block.match(/```/g)?.length, 2);
    t.is(block.split('\n').length, 4);
  }
});

const wide = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`field_${i}`, '&'.repeat(5000)]));

test('however large the data are, the message stays within what the chats take', (t) => {
  const huge = { row: { ...wide, ['&'.repeat(10_000)]: '<'.repeat(100_000) } };
  for (const data of [
    JSON.stringify(huge),
    JSON.stringify({ row: { a: '😀'.repeat(2000) } }),
    `"${'x'.repeat(1e6)}"`,
  ]) {
    const fields = { data, project: '&<>'.repeat(1000), event: `table.${'_<'.repeat(2000)}.UPDATE` };
    const { text, blocks } = slack(fields);
    t.true(text.length <= 40_000);
    t.true(blocks[0].text.text.length <= 150);
    t.true(blocks[1].text.text.length <= 3000);
    t.false(/&(?!amp;|lt;|gt;)/.test(blocks[1].text.text), 'an escape was cut in two');
    t.true(blocks[2].elements[0].text.length <= 2000);
    const [{ title, description, footer }] = discord(fields).embeds;
    t.true(title.length <= 256 && description.length <= 4096 && footer.text.length <= 2048);
    t.true(title.length + description.length + footer.text.length <= 6000);
    for (const part of [title, description, footer.text, text, blocks[1].text.text]) t.true(part.isWellFormed());
  }
});

test('data of megabytes are not read, and data that are left out are said to be', (t) => {
  for (const data of [`{"row":{"secret":"${'x'.repeat(300_000)}"}}`, null]) {
    t.is(slack({ data }).blocks[1].text.text, '```\nThe data of this event are too large to be shown here.\n```');
  }
  t.is(slack({ data: '{"row":{}}' }).blocks[1].text.text, '```\n(nothing)\n```');
});

test('a test says that it is one; an event that nobody knows is told by its name', (t) => {
  t.is(slack({ event: 'test.ping', data: '{"message":"hello"}' }).blocks[0].text.text, 'Test message');
  t.is(slack({ event: 'moon.landed' }).blocks[0].text.text, 'moon.landed');
  t.is(slack({ event: 'constructor' }).blocks[0].text.text, 'constructor');
});

test('Discord’s pause is read from the body of its 429, in seconds', (t) => {
  t.is(discordPauseSeconds('{"message":"You are being rate limited.","retry_after":0.65,"global":false}'), 0.65);
  t.is(discordPauseSeconds('{"retry_after":1e99}'), 86_400);
  for (const body of ['', 'null', '[]', '{}', '{"retry_after":"5"}', '{"retry_after":-1}', '<html>']) {
    t.is(discordPauseSeconds(body), null);
  }
});
