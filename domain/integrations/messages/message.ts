import { discordMessage } from './discord.ts';
import type { ChatEvent, ChatMessage } from './event.ts';
import { slackMessage } from './slack.ts';

export type { ChatEvent, ChatMessage } from './event.ts';

export type ChatKind = 'slack' | 'discord';

const formats = { slack: slackMessage, discord: discordMessage } as const satisfies Record<
  ChatKind,
  (event: ChatEvent) => ChatMessage
>;

/** The message of an event to a chat. */
export const messageOf = (kind: ChatKind, event: ChatEvent): ChatMessage => formats[kind](event);
