/**
 * A chat in the form that all our providers share: OpenAI's shapes, which all clients use. The adapters in `providers/`
 * translate it into each dialect and back.
 */

interface TextPart {
  readonly type: 'text';
  readonly text: string;
}

/** An image by URL, or inline as a `data:` URL. */
interface ImagePart {
  readonly type: 'image_url';
  readonly image_url: { readonly url: string; readonly detail?: string | undefined };
}

export type ContentPart = TextPart | ImagePart;

export interface ToolCall {
  readonly id: string;
  readonly type: 'function';
  /** `arguments` is JSON text, as the model wrote it: not necessarily valid. */
  readonly function: { readonly name: string; readonly arguments: string };
}

export interface ChatMessage {
  readonly role: 'system' | 'developer' | 'user' | 'assistant' | 'tool';
  /** Null beside tool calls. */
  readonly content: string | readonly ContentPart[] | null;
  readonly name?: string | undefined;
  readonly tool_calls?: readonly ToolCall[] | undefined;
  /** The id of the call that a tool's message answers. */
  readonly tool_call_id?: string | undefined;
}

interface Tool {
  readonly type: 'function';
  readonly function: {
    readonly name: string;
    readonly description?: string | undefined;
    /** A JSON Schema. */
    readonly parameters?: Readonly<Record<string, unknown>> | undefined;
    readonly strict?: boolean | null | undefined;
  };
}

export type ToolChoice =
  | 'none'
  | 'auto'
  | 'required'
  | { readonly type: 'function'; readonly function: { readonly name: string } };

export type ResponseFormat =
  | { readonly type: 'text' }
  | { readonly type: 'json_object' }
  | {
      readonly type: 'json_schema';
      readonly json_schema: {
        readonly name: string;
        readonly description?: string | undefined;
        readonly schema?: Readonly<Record<string, unknown>> | undefined;
        readonly strict?: boolean | null | undefined;
      };
    };

/** A request to a model. `model` is the provider's own id, without our prefix. */
export interface ChatRequest {
  readonly model: string;
  readonly messages: readonly ChatMessage[];
  readonly temperature?: number | undefined;
  /** The largest number of tokens in the answer. */
  readonly max_tokens?: number | undefined;
  readonly top_p?: number | undefined;
  readonly stop?: string | readonly string[] | undefined;
  readonly tools?: readonly Tool[] | undefined;
  readonly tool_choice?: ToolChoice | undefined;
  readonly response_format?: ResponseFormat | undefined;
  /**
   * Fields that exist in OpenAI's dialect only; the others refuse them. Messages may then have roles and parts that are
   * not among the types here.
   */
  readonly onlyOpenAi?: string | undefined;
  /** Further fields, for providers that speak OpenAI's dialect; the others do not get them. */
  readonly extra?: Readonly<Record<string, unknown>> | undefined;
}

/** Details exist when a provider reports them; parts of the prompt and of the answer are among their tokens. */
export interface TokenUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  /** Prompt tokens that were read from the provider's cache. */
  readonly cached_tokens?: number;
  /** Prompt tokens that were written to the provider's cache. */
  readonly cache_write_tokens?: number;
  /** Answer tokens that were reasoning. */
  readonly reasoning_tokens?: number;
  /** In which the call was served, where that changes the price: `flex`, `priority`, … */
  readonly service_tier?: string;
}

/** Why the model stopped, in OpenAI's words. */
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter';

/** A whole answer. */
export interface ChatAnswer {
  /** As the provider names it; it may be more exact than what was asked for. */
  readonly model: string;
  readonly content: string;
  readonly toolCalls: readonly ToolCall[];
  readonly finish: FinishReason;
  /** Null: the provider did not say. */
  readonly usage: TokenUsage | null;
  /** The answer as it came, where it is in OpenAI's dialect already. */
  readonly raw: string | null;
}

/** A part of a tool call in a stream; those with one `index` belong together. */
export interface ToolCallPart {
  readonly index: number;
  readonly id?: string | undefined;
  readonly name?: string | undefined;
  /** To be appended. */
  readonly arguments?: string | undefined;
}

/** The content of one event of a stream. */
export interface ChatPiece {
  /** Empty when it brought no text. */
  readonly text: string;
  readonly toolCalls: readonly ToolCallPart[];
  /** Characters that it brought beside these: of further answers (`n`), and of thoughts. */
  readonly unshown?: number | undefined;
  /** The event's data as it came, where it is in OpenAI's dialect already. */
  readonly raw: string | null;
}
