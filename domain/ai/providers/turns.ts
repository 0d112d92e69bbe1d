import { unescape } from 'node:querystring';
import type { ChatMessage, ChatRequest, ContentPart } from '../chat.ts';
import { type Loose, objectIn } from './json.ts';

const isInstruction = ({ role }: ChatMessage): boolean => role === 'system' || role === 'developer';

/** The parts of a content; text that is empty is none, since Anthropic refuses it. */
export const partsOf = (content: ChatMessage['content']): readonly ContentPart[] => {
  if (content === null) return [];
  const parts: readonly ContentPart[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  return parts.filter((part) => part.type !== 'text' || part.text !== '');
};

export const plainText = (content: ChatMessage['content']): string =>
  partsOf(content)
    .map((part) => (part.type === 'text' ? part.text : ''))
    .join('');

/**
 * Returns the instructions that other dialects than OpenAI's carry apart from the messages: system and developer
 * messages, wherever they are; empty for none.
 */
export const instructionsOf = ({ messages }: ChatRequest, ...more: readonly string[]): string =>
  [...messages.filter(isInstruction).map((message) => plainText(message.content)), ...more]
    .filter((text) => text !== '')
    .join('\n\n');

/** A turn of the conversation with blocks of a dialect's own. */
interface Turn<Block> {
  readonly role: 'user' | 'assistant';
  readonly blocks: readonly Block[];
}

/**
 * The conversation in turns: several messages of one side are one turn, and results of tools are the user's. Both
 * Anthropic and Google want all results of a round of tool calls in the one turn after it.
 */
export const turnsOf = <Block>(
  messages: readonly ChatMessage[],
  blocksOf: (message: ChatMessage) => readonly Block[],
): readonly Turn<Block>[] => {
  const turns: { role: Turn<Block>['role']; blocks: Block[] }[] = [];
  for (const message of messages) {
    if (isInstruction(message)) continue;
    const role = message.role === 'assistant' ? 'assistant' : 'user';
    const blocks = blocksOf(message);
    const last = turns.at(-1);
    if (last?.role === role) last.blocks.push(...blocks);
    else turns.push({ role, blocks: [...blocks] });
  }
  return turns.filter(({ blocks }) => blocks.length > 0);
};

/** Far above what models write; a tool's answer that is longer is passed on as text. */
const maxArgumentsLength = 65_536;

/** The arguments of a tool call as an object. What the model wrote may be no JSON: then it is kept as text. */
export const argumentsOf = (text: string): Loose => {
  if (text.length > maxArgumentsLength) return { text };
  if (text.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    const object = objectIn(value);
    return object === value ? object : { value };
  } catch {
    return { text };
  }
};

/** Returns the instruction to answer in JSON, for models that have no other way. */
export const jsonInWords = (format: ChatRequest['response_format']): string => {
  if (format === undefined || format.type === 'text') return '';
  const plain = 'Answer with one JSON object and nothing else, without a code fence.';
  if (format.type === 'json_object' || !format.json_schema.schema) return plain;
  return `${plain} It fits this JSON Schema: ${JSON.stringify(format.json_schema.schema)}`;
};

/** Returns the content of an inline image; null when the URL is none. */
export const readDataUrl = (url: string): { readonly mediaType: string; readonly base64: string } | null => {
  const comma = url.indexOf(',');
  if (!url.startsWith('data:') || comma === -1) return null;
  const head = url.slice('data:'.length, comma);
  const mediaType = head.split(';', 1)[0] || 'text/plain';
  // `unescape` also takes what is wrongly escaped, where decodeURIComponent throws.
  const rest = url.slice(comma + 1);
  return {
    mediaType,
    base64: head.endsWith(';base64') ? rest : Buffer.from(unescape(rest)).toString('base64'),
  };
};
