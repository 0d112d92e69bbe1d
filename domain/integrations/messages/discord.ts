import type { ChatEvent, ChatMessage } from './event.ts';
import { summaryOf, titleOf } from './summary.ts';
import { shortened, withoutCalls } from './text.ts';

// Discord's own: of an embed the title has 256 characters, the description 4,096, the footer 2,048, all of it 6,000
// (discord.com/developers, "Embed limits").
const maxTitle = 256;
const maxDescription = 4096;
const maxFooter = 300;

/** Backslashes take Discord's markup its meaning. */
const escaped = (text: string): string => withoutCalls(text).replaceAll(/[\\*_~|>#[\]()`-]/g, '\\$&');

const fence = ['```\n', '\n```'] as const;

/**
 * A message for a webhook of Discord: it calls nobody. All of it stands in an embed, where links are not unfolded and
 * mentions call nobody, whatever `allowed_mentions` says.
 */
export const discordMessage = (event: ChatEvent): ChatMessage => {
  const lines = withoutCalls(summaryOf(event).join('\n'));
  const block = shortened(lines, maxDescription - fence.join('').length);
  return {
    contentType: 'application/json; charset=utf-8',
    body: JSON.stringify({
      allowed_mentions: { parse: [] },
      embeds: [
        {
          // Escaping doubles it at most; what breaks up calls adds a little.
          title: shortened(escaped(shortened(titleOf(event.event), maxTitle / 4)), maxTitle),
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
