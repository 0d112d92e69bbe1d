import type { ChatAnswer, ChatPiece, FinishReason, TokenUsage, ToolCallPart, UsageDetails } from '../chat.ts';
import type { ListedModel, SentEvent, StreamReader } from './dialect.ts';
import { sentFault } from './faults.ts';
import {
  type Loose,
  badAnswer,
  countIn,
  listIn,
  modelsIn,
  objectIn,
  parseEvent,
  parseObject,
  requireFew,
  textIn,
  usageOf,
} from './json.ts';

const finishes: Readonly<Record<string, FinishReason>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  pause_turn: 'stop',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool_calls',
  refusal: 'content_filter',
};

const finishIn = (value: unknown): FinishReason | null =>
  typeof value === 'string' ? (finishes[value] ?? 'stop') : null;

/** Tokens that were read from and written to the cache are not in `input_tokens`; null when no input is reported. */
const promptIn = (usage: Loose): number | null => {
  const input = countIn(usage['input_tokens']);
  if (input === null) return null;
  return (
    input + (countIn(usage['cache_read_input_tokens']) ?? 0) + (countIn(usage['cache_creation_input_tokens']) ?? 0)
  );
};

const detailsIn = (usage: Loose): UsageDetails => ({
  cached: countIn(usage['cache_read_input_tokens']),
  written: countIn(usage['cache_creation_input_tokens']),
  tier: usage['service_tier'],
});

const usageIn = (value: unknown): TokenUsage | null => {
  const usage = objectIn(value);
  return usageOf(promptIn(usage), countIn(usage['output_tokens']), detailsIn(usage));
};

export const readChat = (body: string): ChatAnswer => {
  const answer = parseObject(body);
  if (answer['type'] === 'error') throw sentFault(objectIn(answer['error']));
  if (!Array.isArray(answer['content'])) throw badAnswer('The answer holds no content.');
  const blocks = listIn(answer['content']).map(objectIn);
  const calls = blocks.filter((block) => block['type'] === 'tool_use');
  requireFew(calls.length, 'tool calls');
  return {
    model: textIn(answer['model']),
    content: blocks.map((block) => (block['type'] === 'text' ? textIn(block['text']) : '')).join(''),
    toolCalls: calls.map((block) => ({
      id: textIn(block['id']),
      type: 'function',
      function: { name: textIn(block['name']), arguments: JSON.stringify(block['input'] ?? {}) },
    })),
    finish: finishIn(answer['stop_reason']) ?? 'stop',
    usage: usageIn(answer['usage']),
    raw: null,
  };
};

const textPiece = (text: string): ChatPiece | null => (text === '' ? null : { text, toolCalls: [], raw: null });
const callPiece = (part: ToolCallPart): ChatPiece => ({ text: '', toolCalls: [part], raw: null });

/** A tool call that is being written. */
interface Writing {
  readonly index: number;
  hasArguments: boolean;
}

/** Reads a stream; it is whole with `message_stop`. */
class AnthropicReader implements StreamReader {
  #stopped = false;
  #began = false;
  #finish: FinishReason | null = null;
  #prompt: number | null = null;
  #completion: number | null = null;
  #details: UsageDetails = {};
  #model = '';
  #calls = 0;
  /** By the number of their content block. */
  readonly #writing = new Map<unknown, Writing>();

  readonly began = (): boolean => this.#began;
  readonly ended = (): boolean => this.#stopped;
  readonly complete = (): boolean => this.#stopped;
  readonly finish = (): FinishReason | null => this.#finish;
  readonly usage = (): TokenUsage | null => usageOf(this.#prompt, this.#completion, this.#details);
  readonly model = (): string => this.#model;

  readonly take = ({ event, data }: SentEvent): ChatPiece | null => {
    // Nothing to read in it, whatever it is.
    if (event === 'ping') return null;
    const sent = parseEvent(data);
    switch (sent['type']) {
      case 'message_start':
        return this.#start(objectIn(sent['message']));
      case 'content_block_start':
        return this.#startBlock(sent['index'], objectIn(sent['content_block']));
      case 'content_block_delta':
        return this.#delta(sent['index'], objectIn(sent['delta']));
      case 'content_block_stop':
        return this.#stopBlock(sent['index']);
      case 'message_delta':
        return this.#end(sent);
      case 'message_stop':
        this.#stopped = true;
        return null;
      case 'error':
        throw sentFault(objectIn(sent['error']));
      default:
        // The vendor may add events (its versioning policy).
        return null;
    }
  };

  #start(message: Loose): null {
    this.#model = textIn(message['model']);
    this.#count(objectIn(message['usage']));
    return null;
  }

  #startBlock(at: unknown, block: Loose): ChatPiece | null {
    if (block['type'] !== 'text') this.#began = true;
    if (block['type'] === 'text') return textPiece(textIn(block['text']));
    if (block['type'] !== 'tool_use') return null;
    const writing = { index: this.#calls, hasArguments: false };
    this.#calls += 1;
    requireFew(this.#calls, 'tool calls');
    this.#writing.set(at, writing);
    return callPiece({ index: writing.index, id: textIn(block['id']), name: textIn(block['name']), arguments: '' });
  }

  #delta(at: unknown, delta: Loose): ChatPiece | null {
    this.#began = true;
    if (delta['type'] === 'text_delta') return textPiece(textIn(delta['text']));
    const writing = this.#writing.get(at);
    const json = textIn(delta['partial_json']);
    if (delta['type'] !== 'input_json_delta' || !writing || json === '') return null;
    writing.hasArguments = true;
    return callPiece({ index: writing.index, arguments: json });
  }

  /** A tool without input is called without a word about it; OpenAI's clients want JSON. */
  #stopBlock(at: unknown): ChatPiece | null {
    const writing = this.#writing.get(at);
    if (!writing || writing.hasArguments) return null;
    return callPiece({ index: writing.index, arguments: '{}' });
  }

  #end(sent: Loose): null {
    this.#finish = finishIn(objectIn(sent['delta'])['stop_reason']) ?? this.#finish;
    this.#count(objectIn(sent['usage']));
    return null;
  }

  /** A later figure replaces the earlier one. */
  #count(usage: Loose): void {
    // A later event repeats the prompt's counts, or has those of the answer only.
    if (promptIn(usage) !== null) this.#details = detailsIn(usage);
    this.#prompt = promptIn(usage) ?? this.#prompt;
    this.#completion = countIn(usage['output_tokens']) ?? this.#completion;
  }
}

export const openStream = (): StreamReader => new AnthropicReader();

const modelIn = (value: unknown): ListedModel => {
  const model = objectIn(value);
  return { id: textIn(model['id']), type: 'chat', contextWindow: countIn(model['max_input_tokens']) };
};

export const readModels = (body: string): { models: readonly ListedModel[]; next: string | null } => {
  const answer = parseObject(body);
  if (!Array.isArray(answer['data'])) throw badAnswer('There is no list of models.');
  const last = textIn(answer['last_id']);
  return {
    models: modelsIn(answer['data'], modelIn),
    next: answer['has_more'] === true && last !== '' ? last : null,
  };
};
