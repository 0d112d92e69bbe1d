import type { ChatEvent, ChatMessage } from './event.ts';
import { summaryOf, titleOf } from './summary.ts';
import { shortened, withoutCalls } from './text.ts';

// Slack's own: a header has 150 characters, a section 3,000, the text 40,000 (docs.slack.dev, "Blocks").
const maxHeader = 150;
const maxSection = 3000;
const maxContext = 300;

/** The characters of Slack's markup (docs.slack.dev, "Formatting message text"). */
const escaped = (text: string): string =>
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
export const slackMessage = (event: ChatEvent): ChatMessage => {
  const title = shortened(titleOf(event.event), 100);
  const project = shortened(event.project, 100);
  const block = blockOf(summaryOf(event).map(escaped));
  return {
    contentType: 'application/json; charset=utf-8',
    body: JSON.stringify({
      text: escaped(`${title} (${project})`),
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
