import type { ExecutionContext } from 'ava';
import type { ChatAnswer, ChatRequest, FinishReason, TokenUsage, ToolCallPart } from '#domain/ai/chat.ts';
import { type ProviderName, dialectOf } from '#domain/ai/providers/providers.ts';
import {
  type EmbeddingAnswer,
  type EmbeddingRequest,
  type Target,
  ProviderFault,
} from '#domain/ai/providers/dialect.ts';
import { readFault } from '#domain/ai/providers/faults.ts';
import { type Times, type Transport, createTransport } from '#domain/ai/providers/transport.ts';
import { createEgress } from '#lib/egress.ts';

/** The endpoint of one provider that a test plays. */
export interface Peer {
  readonly provider: ProviderName;
  readonly target: Target;
  readonly transport: Transport;
  readonly signal: AbortSignal;
}

/** A stream as its reader saw it. */
export interface ReceivedAnswer {
  readonly text: string;
  readonly toolCalls: readonly { readonly name: string; readonly arguments: string }[];
  readonly finish: FinishReason | null;
  readonly usage: TokenUsage | null;
  readonly model: string;
  readonly complete: boolean;
}

export const transportFor = (t: ExecutionContext, times?: Times, allow = '127.0.0.0/8'): Transport => {
  const egress = createEgress({ allow, local: false });
  t.teardown(() => egress.close());
  return createTransport(egress, times);
};

export const peerFor = (
  t: ExecutionContext,
  provider: ProviderName,
  baseUrl: string,
  given: Partial<Peer> & { readonly isVendor?: boolean; readonly apiKey?: string } = {},
): Peer => ({
  provider,
  target: { baseUrl, apiKey: given.apiKey ?? 'sk-test-key-1234', isVendor: given.isVendor ?? false },
  transport: given.transport ?? transportFor(t),
  signal: given.signal ?? new AbortController().signal,
});

export const saying = (content: string, fields: Partial<ChatRequest> = {}): ChatRequest => ({
  model: 'some-model',
  messages: [{ role: 'user', content }],
  ...fields,
});

export const chatWith = async (peer: Peer, request: ChatRequest): Promise<ChatAnswer> => {
  const dialect = dialectOf(peer.provider);
  const outgoing = dialect.chat(peer.target, request, false);
  const { status, headers, bytes } = await peer.transport.send(outgoing, { signal: peer.signal });
  const body = bytes.toString();
  if (status !== 200) throw readFault(status, body, headers['retry-after']);
  return dialect.readChat(body);
};

export const embedWith = async (peer: Peer, request: EmbeddingRequest): Promise<EmbeddingAnswer> => {
  const dialect = dialectOf(peer.provider);
  const outgoing = dialect.embeddings(peer.target, request);
  const { status, headers, bytes } = await peer.transport.send(outgoing, { signal: peer.signal });
  const body = bytes.toString();
  if (status !== 200) throw readFault(status, body, headers['retry-after']);
  return dialect.readEmbeddings(body, request);
};

interface CallText {
  name: string;
  arguments: string;
}

const addCalls = (calls: CallText[], parts: readonly ToolCallPart[]): void => {
  for (const part of parts) {
    const call = (calls[part.index] ??= { name: '', arguments: '' });
    call.name += part.name ?? '';
    call.arguments += part.arguments ?? '';
  }
};

/** `onText` is told of each piece of text. Throws what the gateway would make an error of. */
export const streamWith = async (
  peer: Peer,
  request: ChatRequest,
  onText: (text: string) => void = () => undefined,
): Promise<ReceivedAnswer> => {
  const dialect = dialectOf(peer.provider);
  const reader = dialect.openStream();
  const outgoing = dialect.chat(peer.target, request, true);
  const opened = await peer.transport.openStream(outgoing, { signal: peer.signal });
  if (!opened.ok) throw readFault(opened.status, String(opened.bytes), opened.headers['retry-after']);
  const calls: CallText[] = [];
  let text = '';
  for await (const events of opened.events) {
    for (const piece of events.map(reader.take)) {
      addCalls(calls, piece?.toolCalls ?? []);
      if (!piece || piece.text === '') continue;
      text += piece.text;
      onText(piece.text);
    }
    if (reader.began) opened.events.started();
  }
  return {
    text,
    toolCalls: calls,
    finish: reader.finish,
    usage: reader.usage,
    model: reader.model,
    complete: reader.complete,
  };
};

/** The fault that something ends with. */
export const faultIn = async (work: Promise<unknown>): Promise<ProviderFault> => {
  try {
    await work;
  } catch (error) {
    if (error instanceof ProviderFault) return error;
    throw error;
  }
  throw new Error('there was no fault');
};
