import type { Readable } from 'node:stream';
import { z } from 'zod';
import type { IdempotencyKey } from '#domain/idempotency/idempotency.ts';
import type { JobRequest } from '#domain/jobs/jobs.ts';
import type { JsonParser } from '#lib/json-parser.ts';
import type { AnswerStream } from '#queues/answer-streams.ts';
import type { JobOutcome } from '#queues/define.ts';
import type { Access } from './access.ts';
import type { BaseCall, Call } from './call.ts';
import type { RawWork } from './raw-endpoint.ts';
import type { RateClass } from './rate-limit.ts';

export type Method = 'get' | 'post' | 'put' | 'patch' | 'delete' | 'options';
export type BodyLimit = 'json' | 'function' | 'deploy' | 'ai' | 'import' | 'flags';
/**
 * How failures are written: in plinth's one error body, as OpenAI's, supabase-js' sign-in or storage, OAuth's,
 * OpenFeature's or RFC 8628's clients read them, or as a page for people.
 */
export type ErrorForm = 'plinth' | 'openai' | 'auth' | 'oauth' | 'ofrep' | 'storage' | 'device' | 'page';

/**
 * Reads a body that is too large for the event loop.
 * @param owner the party whose work it is
 */
export type BodyReader = (
  json: JsonParser,
  bytes: Buffer,
  owner: string,
) => Promise<{
  readonly value: unknown;
  /** Stands for the body where two requests are compared. */
  readonly digest: string;
}>;

/** An answer that is not built from the response schema: text that is passed through, a page, or a stream. */
export class RawReply {
  /** Null: none. Texts are the pieces of one, in order. */
  readonly body: string | readonly string[] | Buffer | Readable | null;
  /** Null: the handler has set it among the headers, or there is none. */
  readonly type: string | null;
  readonly status: number;

  constructor(body: RawReply['body'], type: string | null = 'application/json; charset=utf-8', status = 200) {
    this.body = body;
    this.type = type;
    this.status = status;
  }
}

export interface Input<P, Q, B> {
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  /** The body as it came, when there was one. */
  readonly bodyText: string;
}

interface Common<A extends Access, P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> {
  readonly method: Method;
  /** As the interface document writes it: `/projects/{project_id}/functions/{id}`. */
  readonly path: string;
  /** The area, which groups the API page. */
  readonly area: string;
  readonly summary: string;
  readonly access: A;
  /** Left out: by access. */
  readonly rate?: RateClass;
  readonly bodyLimit?: BodyLimit;
  /** Left out: plinth's own. */
  readonly errors?: ErrorForm;
  /** Scripts of every web page may call it, as they may what takes keys. */
  readonly anyOrigin?: true;
  /** Takes text/plain too, as the JSON string that it would be. */
  readonly textBody?: boolean;
  /** Takes a body of any media type; the input's body is a `GivenBody`. */
  readonly anyBody?: true;
  /** For a large body, which a thread makes small: `body` is its form for the API page, and what this returns is the input. */
  readonly readBody?: BodyReader;
  /**
   * The last parameter of the path, `{path}`, is all that follows, slashes too: decoded (a malformed escape is 400
   * `invalid_key`), or as it came.
   */
  readonly deep?: 'decoded' | 'raw';
  readonly params?: P;
  readonly query?: Q;
  readonly body?: B;
  /** Left out: 204 for DELETE, 200 otherwise. */
  readonly status?: number;
  /**
   * Runs before an earlier answer is repeated for its `Idempotency-Key`: throws when the caller may not ask for it any
   * more. For endpoints that check more than their access says.
   */
  readonly beforeReplay?: (input: Input<z.output<P>, z.output<Q>, z.output<B>>, call: Call<A>) => Promise<unknown>;
}

/** An endpoint that answers by itself. */
interface Direct<
  A extends Access,
  P extends z.ZodType,
  Q extends z.ZodType,
  B extends z.ZodType,
  R extends z.ZodType,
  Prepared,
> extends Common<A, P, Q, B> {
  /** Left out: an empty answer. */
  readonly response?: R;
  /** The media type of the answer, for the API page. Left out: JSON. */
  readonly mediaType?: string;
  /** Slow work on the input (hashing, compiling), done before the transaction begins. */
  readonly prepare?: (input: Input<z.output<P>, z.output<Q>, z.output<B>>, call: Call<A>) => Promise<Prepared>;
  /** Names the audit entry where the row operation alone does not say what happened, e.g. `project.delete`. */
  readonly auditAction?: string;
  /** `none`: nothing is changed, or the handler keeps its own order. Left out: a transaction around all but GET. */
  readonly transaction?: 'none';
  readonly handle: (
    input: Input<z.output<P>, z.output<Q>, z.output<B>> & {
      readonly prepared: Prepared;
      /**
       * Whether answers of a POST are kept under its idempotency key; a transaction of the control database has kept
       * them already.
       */
      readonly key: IdempotencyKey | undefined;
    },
    call: Call<A>,
  ) => Promise<z.output<R> | RawReply>;
}

/** An endpoint that runs a job: `Prefer`, waiting, 202 and replays are done for it. */
interface WithJob<
  A extends Access,
  P extends z.ZodType,
  Q extends z.ZodType,
  B extends z.ZodType,
  R extends z.ZodType,
> extends Common<A, P, Q, B> {
  readonly response: R;
  readonly request: (input: Input<z.output<P>, z.output<Q>, z.output<B>>, call: Call<A>) => Promise<JobRequest>;
  /**
   * Once the job is accepted, or was by an earlier request with this key: sets headers of every answer, the 202 too.
   */
  readonly accepted?: (job: Omit<JobEnd, 'outcome'>, call: Call<A>) => Promise<void>;
  /**
   * Maps the end of the job to the answer.
   * @param done.replayed another request began the job: show no secret, change nothing
   */
  readonly answer: (done: JobEnd, call: Call<A>) => Promise<z.output<R> | RawReply>;
  /** The answer that a run sends while it goes on. Left out: its jobs send none. */
  readonly answerStream?: (stream: AnswerStream, call: Call<A>) => RawReply;
  /** For a client that asks for server-sent events: answers without a job. Left out: the answer is the same for it. */
  readonly streamed?: (input: Input<z.output<P>, z.output<Q>, z.output<B>>, call: Call<A>) => Promise<RawReply>;
}

export interface JobEnd {
  readonly jobId: string;
  readonly projectId: string;
  readonly outcome: JobOutcome;
  readonly replayed: boolean;
}

/** An endpoint with its types erased: what the router, the OpenAPI page and the tests read. */
export interface Endpoint {
  readonly method: Method;
  readonly path: string;
  readonly area: string;
  readonly summary: string;
  readonly access: Access;
  readonly rate: RateClass;
  readonly bodyLimit: BodyLimit;
  readonly errors: ErrorForm;
  readonly anyOrigin: boolean;
  readonly textBody: boolean;
  readonly anyBody: boolean;
  readonly readBody: BodyReader | undefined;
  readonly deep: 'decoded' | 'raw' | null;
  readonly params: z.ZodType | undefined;
  readonly query: z.ZodType | undefined;
  readonly body: z.ZodType | undefined;
  readonly status: number;
  readonly response: z.ZodType | undefined;
  readonly mediaType: string;
  readonly auditAction: string | undefined;
  readonly beforeReplay: (input: AnyInput, call: BaseCall) => Promise<unknown>;
  readonly work: DirectWork | JobWork | RawWork;
}

type AnyInput = Input<never, never, never>;

export interface DirectWork {
  readonly kind: 'direct';
  readonly transaction: boolean;
  readonly prepare: (input: AnyInput, call: BaseCall) => Promise<unknown>;
  readonly handle: (
    input: AnyInput & { prepared: unknown; key: IdempotencyKey | undefined },
    call: BaseCall,
  ) => Promise<unknown>;
}

export interface JobWork {
  readonly kind: 'job';
  readonly request: (input: AnyInput, call: BaseCall) => Promise<JobRequest>;
  readonly accepted: (job: Omit<JobEnd, 'outcome'>, call: BaseCall) => Promise<void>;
  readonly answer: (done: JobEnd, call: BaseCall) => Promise<unknown>;
  readonly answerStream: (stream: AnswerStream, call: BaseCall) => RawReply;
  readonly streamed: ((input: AnyInput, call: BaseCall) => Promise<RawReply>) | null;
}

const rateOf = (access: Access): RateClass =>
  access.kind === 'project' || access.kind === 'organization' || access.kind === 'signed-in' ? 'dashboard' : 'none';

/** An endpoint without a body takes an empty one: a field that nobody reads is a mistake of the caller. */
const bodyOf = (method: Method, body: z.ZodType | undefined): z.ZodType | undefined =>
  body ?? (method === 'get' || method === 'delete' ? undefined : z.strictObject({}));

const common = (
  d: Omit<Common<Access, z.ZodType, z.ZodType, z.ZodType>, 'beforeReplay'> & { readonly beforeReplay?: unknown },
): Omit<Endpoint, 'response' | 'mediaType' | 'auditAction' | 'work'> => ({
  method: d.method,
  path: d.path,
  area: d.area,
  summary: d.summary,
  access: d.access,
  rate: d.rate ?? rateOf(d.access),
  bodyLimit: d.bodyLimit ?? 'json',
  errors: d.errors ?? 'plinth',
  anyOrigin: d.anyOrigin ?? d.access.kind === 'key',
  textBody: d.textBody ?? false,
  anyBody: d.anyBody ?? false,
  readBody: d.readBody,
  deep: d.deep ?? null,
  params: d.params,
  query: d.query,
  body: bodyOf(d.method, d.body),
  status: d.status ?? (d.method === 'delete' ? 204 : 200),
  beforeReplay: (d.beforeReplay ?? (() => Promise.resolve())) as Endpoint['beforeReplay'],
});

/** Defines an endpoint: its route, validation, access, rate class and OpenAPI entry all come from this one object. */
export const endpoint = <
  A extends Access,
  P extends z.ZodType = z.ZodUnknown,
  Q extends z.ZodType = z.ZodUnknown,
  B extends z.ZodType = z.ZodUnknown,
  R extends z.ZodType = z.ZodVoid,
  Prepared = undefined,
>(
  d: Direct<A, P, Q, B, R, Prepared>,
): Endpoint => ({
  ...common(d),
  response: d.response,
  mediaType: d.mediaType ?? 'application/json',
  auditAction: d.auditAction,
  work: {
    kind: 'direct',
    transaction: d.method !== 'get' && d.transaction !== 'none',
    prepare: (d.prepare ?? (() => Promise.resolve(undefined))) as DirectWork['prepare'],
    handle: d.handle as unknown as DirectWork['handle'],
  },
});

const refuseStream: JobWork['answerStream'] = (stream) => {
  stream.destroy();
  throw new Error('a job sent an answer that its endpoint does not take');
};

/** Defines an endpoint whose work is a job. */
export const jobEndpoint = <
  A extends Access,
  P extends z.ZodType = z.ZodUnknown,
  Q extends z.ZodType = z.ZodUnknown,
  B extends z.ZodType = z.ZodUnknown,
  R extends z.ZodType = z.ZodUnknown,
>(
  d: WithJob<A, P, Q, B, R>,
): Endpoint => ({
  ...common(d),
  response: d.response,
  mediaType: 'application/json',
  auditAction: undefined,
  work: {
    kind: 'job',
    request: d.request as unknown as JobWork['request'],
    accepted: (d.accepted ?? (() => Promise.resolve())) as JobWork['accepted'],
    answer: d.answer as unknown as JobWork['answer'],
    answerStream: (d.answerStream ?? refuseStream) as unknown as JobWork['answerStream'],
    streamed: (d.streamed ?? null) as unknown as JobWork['streamed'],
  },
});
