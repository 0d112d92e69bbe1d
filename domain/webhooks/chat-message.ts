import { paymentProviders } from '#domain/events/events.ts';
import { parseExactJson } from '#lib/json.ts';

/** An event in the form of a chat message. */
export interface ChatEvent {
  /** As it happened: `table.users.INSERT`, `functions.error`, `payments.stripe.invoice.paid`, `test.ping`. */
  readonly event: string;
  /** The project's name. */
  readonly project: string;
  readonly timestamp: Date;
  /** JSON text; of writes to tables `{"row":…,"old":…}`, as it waits in the outbox. Null: too large to be shown. */
  readonly data: string | null;
}

/** The body that is sent to the address of a chat. */
interface ChatMessage {
  readonly body: string;
  readonly contentType: string;
}

// Nothing is seen of it, and nothing around it is a command any more.
const joint = '\u200B';

/**
 * Breaks up what would call people or close a block of code: `@everyone`, `<!channel>`, `<@U1>`, three backticks.
 * Neither chat has an escape for all of them that it honours everywhere.
 */
const withoutCalls = (text: string): string =>
  text
    .replaceAll(/@(?=everyone|here|channel|group)/gi, `@${joint}`)
    .replaceAll(/<(?=[@#!/:])/g, `<${joint}`)
    .replaceAll(/`(?=`)/g, `\`${joint}`);

/** At most so many UTF-16 units, no character cut in two. */
const shortened = (text: string, max: number): string => {
  if (text.length <= max) return text;
  const cut = text.slice(0, max - 1);
  return `${/[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut}…`;
};

const maxNameLength = 60;
const maxValueLength = 200;
const maxLines = 20;
// A row can have 8 MB: nobody reads them in a chat, and parsing them would hold up other deliveries.
const maxParsed = 256 * 1024;

type Fields = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isOf = (value: unknown, name: string): unknown => (isObject(value) ? value[name] : undefined);

/** Razorpay puts what an event is about under its kind: `{"payment":{"entity":{…}}}`. */
const razorpayEntity = (data: Fields): unknown =>
  isOf(Object.values(isObject(data['payload']) ? data['payload'] : {})[0], 'entity');

/** Where providers put what an event is about. */
const subjects: readonly (readonly [prefix: string, find: (data: Fields) => unknown])[] = [
  ['table.', (data) => data['row']],
  ['db.', (data) => data['row']],
  ['payments.stripe.', (data) => isOf(data['data'], 'object')],
  ['payments.paypal.', (data) => data['resource']],
  ['payments.razorpay.', razorpayEntity],
];

const subjectOf = (event: string, data: unknown): unknown => {
  if (!isObject(data)) return data;
  const found = subjects.find(([prefix]) => event.startsWith(prefix))?.[1](data);
  return found ?? data;
};

const oneLine = (value: unknown): string => {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'null');
  // Control characters, line breaks and characters that turn the direction of text would make one field look like
  // several.
  return shortened(
    text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\u202A-\u202E\u2066-\u2069]+/gu, ' ').toWellFormed(),
    maxValueLength,
  );
};

// A number that JavaScript cannot hold is an object here, too.
const isNested = ([, value]: readonly [string, unknown]): boolean =>
  typeof value === 'object' && value !== null && /^[[{]/.test(JSON.stringify(value));

/** Plain values first: they say the most in the least room. */
const linesOf = (subject: unknown): string[] => {
  if (!isObject(subject)) return [oneLine(subject)];
  const entries = Object.entries(subject);
  const ordered = [...entries.filter((entry) => !isNested(entry)), ...entries.filter(isNested)];
  const lines = ordered
    .slice(0, maxLines)
    .map(([name, value]) => `${shortened(oneLine(name), maxNameLength)}: ${oneLine(value)}`);
  return entries.length > maxLines ? [...lines, `… and ${entries.length - maxLines} more`] : lines;
};

const parsed = (data: string): unknown => {
  try {
    return parseExactJson(data);
  } catch {
    return data;
  }
};

/** The fields of what an event is about, a line each; nothing in them is escaped. */
const summaryOf = ({ event, data }: ChatEvent): readonly string[] => {
  if (data === null || data.length > maxParsed) return ['The data of this event are too large to be shown here.'];
  const lines = linesOf(subjectOf(event, parsed(data)));
  return lines.length === 0 ? ['(nothing)'] : lines;
};

const done: ReadonlyMap<string, string> = new Map([
  ['INSERT', 'inserted into'],
  ['UPDATE', 'updated in'],
  ['DELETE', 'deleted from'],
]);

const names: ReadonlyMap<string, string> = new Map([
  ['auth.signup', 'A user signed up'],
  ['auth.login', 'A user signed in'],
  ['auth.password_reset', 'A user set a new password'],
  ['user.created', 'A user was created'],
  ['user.updated', 'A user was changed'],
  ['user.deleted', 'A user was deleted'],
  ['db.insert', 'A row was inserted'],
  ['db.update', 'A row was updated'],
  ['db.delete', 'A row was deleted'],
  ['storage.upload', 'A file was uploaded'],
  ['storage.delete', 'A file was deleted'],
  ['functions.invoked', 'A function ran'],
  ['functions.error', 'A function failed'],
  ['functions.dead', 'A job failed for good'],
  ['cron.missed', 'A schedule missed a fire'],
  ['test.ping', 'Test message'],
]);

/** The event in a few words; nothing in them is escaped. */
const titleOf = (event: string): string => {
  const [, table, op = ''] = /^table\.(.*)\.([A-Z]+)$/s.exec(event) ?? [];
  if (table !== undefined && op === 'TRUNCATE') return `The table ${table} was emptied`;
  if (table !== undefined && done.has(op)) return `A row was ${done.get(op)} ${table}`;
  const [, provider = '', type] = /^payments\.([^.]+)\.(.+)$/s.exec(event) ?? [];
  if (type !== undefined)
    return `${Object.hasOwn(paymentProviders, provider) ? paymentProviders[provider] : provider}: ${type}`;
  return names.get(event) ?? event;
};

// Slack's own: a header has 150 characters, a section 3,000, the text 40,000 (docs.slack.dev, "Blocks").
const maxHeader = 150;
const maxSection = 3000;
const maxContext = 300;

/** The characters of Slack's markup (docs.slack.dev, "Formatting message text"). */
const escapedForSlack = (text: string): string =>
  withoutCalls(text).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** As many lines as there is room for. Cut between them: half of an `&amp;` would be shown. */
const blockOf = (lines: readonly string[]): string => {
  const kept: string[] = [];
  // The fence and the dots at the end.
  let room = maxSection - '```\n…\n```'.length;
  for (const line of lines) {
    room -= line.length + 1;
    if (room < 0) return ['```', ...kept, '…', '```'].join('\n');
    kept.push(line);
  }
  return ['```', ...kept, '```'].join('\n');
};

/** A message for an incoming webhook of Slack: it calls nobody, and no link in it is unfolded. */
const slackMessage = (event: ChatEvent): ChatMessage => {
  const title = shortened(titleOf(event.event), 100);
  const project = shortened(event.project, 100);
  const block = blockOf(summaryOf(event).map(escapedForSlack));
  return {
    contentType: 'application/json; charset=utf-8',
    body: JSON.stringify({
      text: escapedForSlack(`${title} (${project})`),
      mrkdwn: false,
      parse: 'none',
      link_names: false,
      unfurl_links: false,
      unfurl_media: false,
      blocks: [
        {
          type: 'header',
          text: { type: 'plain_text', text: shortened(withoutCalls(title), maxHeader), emoji: false },
        },
        { type: 'section', text: { type: 'mrkdwn', text: block, verbatim: true } },
        {
          type: 'context',
          elements: [
            {
              type: 'plain_text',
              text: shortened(
                withoutCalls(`${project} · ${event.event} · ${event.timestamp.toISOString()}`),
                maxContext,
              ),
              emoji: false,
            },
          ],
        },
      ],
    }),
  };
};

// Discord's own: of an embed the title has 256 characters, the description 4,096, the footer 2,048, all of it 6,000
// (discord.com/developers, "Embed limits").
const maxTitle = 256;
const maxDescription = 4096;
const maxFooter = 300;

/** Backslashes take Discord's markup its meaning. */
const escapedForDiscord = (text: string): string => withoutCalls(text).replaceAll(/[\\*_~|>#[\]()`-]/g, '\\$&');

const fence = ['```\n', '\n```'] as const;

/**
 * A message for a webhook of Discord: it calls nobody. All of it stands in an embed, where links are not unfolded and
 * mentions call nobody, whatever `allowed_mentions` says.
 */
const discordMessage = (event: ChatEvent): ChatMessage => {
  const lines = withoutCalls(summaryOf(event).join('\n'));
  const block = shortened(lines, maxDescription - fence.join('').length);
  return {
    contentType: 'application/json; charset=utf-8',
    body: JSON.stringify({
      allowed_mentions: { parse: [] },
      embeds: [
        {
          // Escaping doubles it at most; what breaks up calls adds a little.
          title: shortened(escapedForDiscord(shortened(titleOf(event.event), maxTitle / 4)), maxTitle),
          description: `${fence[0]}${block}${fence[1]}`,
          footer: { text: shortened(withoutCalls(`${event.project} · ${event.event}`), maxFooter) },
          timestamp: event.timestamp.toISOString(),
        },
      ],
    }),
  };
};

const maxPauseSeconds = 24 * 60 * 60;

/**
 * How long Discord wants to be left alone, by the body of a 429: `{"retry_after": 0.65, …}`, in seconds.
 * @returns null when it does not say
 */
export const discordPauseSeconds = (body: string): number | null => {
  try {
    const seconds: unknown = (JSON.parse(body) as { retry_after?: unknown } | null)?.retry_after;
    return typeof seconds === 'number' && seconds >= 0 ? Math.min(seconds, maxPauseSeconds) : null;
  } catch {
    return null;
  }
};

type ChatKind = 'slack' | 'discord';

const formats = { slack: slackMessage, discord: discordMessage } as const satisfies Record<
  ChatKind,
  (event: ChatEvent) => ChatMessage
>;

/** The message of an event to a chat. */
export const messageOf = (kind: ChatKind, event: ChatEvent): ChatMessage => formats[kind](event);
