import type { Context } from 'koa';
import { z } from 'zod';
import type { Disconnection } from '#lib/disconnection.ts';
import type { Access } from './access.ts';
import type { BaseCall, Call } from './call.ts';
import type { BodyLimit, Endpoint, ErrorForm, Method, RawReply } from './endpoint.ts';
import type { RateClass } from './rate-limit.ts';

/** A request as it came, for surfaces that read queries and bodies in a dialect of their own. */
export interface RawRequest {
  /** In capitals; `HEAD` comes to the endpoints of GET. */
  readonly method: string;
  readonly path: string;
  /** The text after the `?`, undecoded. */
  readonly queryText: string;
  /** Decoded. */
  readonly params: Readonly<Record<string, string>>;
  /** Empty when there is none of that name. */
  readonly header: (name: string) => string;
  /** All headers as JSON, but for those that hold credentials. */
  readonly headersJson: () => string;
  /** Within the endpoint's limit; to be read once. */
  readonly body: () => Promise<Buffer>;
  /** Aborted when the client goes away before it is answered. */
  readonly signal: Disconnection;
  /** For a library that reads the request and writes the answer itself. */
  readonly context: Context;
}

export interface RawWork {
  readonly kind: 'raw';
  readonly handle: (request: RawRequest, call: BaseCall) => Promise<RawReply>;
}

interface RawDefinition<A extends Access> {
  readonly method: Method;
  readonly path: string;
  readonly area: string;
  readonly summary: string;
  readonly access: A;
  readonly rate: RateClass;
  readonly bodyLimit?: BodyLimit;
  /** Left out: plinth's own. */
  readonly errors?: ErrorForm;
  /** Scripts of every web page may call it, as they may what takes keys. */
  readonly anyOrigin?: true;
  /** The last parameter of the path, `{path}`, is all that follows, slashes too. */
  readonly deep?: 'decoded' | 'raw';
  /** The media type of the answer, for the API page. Left out: JSON. */
  readonly mediaType?: string;
  /** For the API page. */
  readonly query?: z.ZodType;
  readonly handle: (request: RawRequest, call: Call<A>) => Promise<RawReply>;
}

/** For the API page: the handler takes the parts of its path as they come. */
const paramsOf = (path: string): z.ZodType | undefined => {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => [name, z.string()]);
  return names.length === 0 ? undefined : z.object(Object.fromEntries(names) as Record<string, z.ZodString>);
};

const takesBody = (method: Method): boolean => method === 'post' || method === 'put' || method === 'patch';

/**
 * Defines an endpoint that reads the request and writes the answer itself: access, rate and limits are still kept here.
 */
export const rawEndpoint = <A extends Access>(d: RawDefinition<A>): Endpoint => ({
  method: d.method,
  path: d.path,
  area: d.area,
  summary: d.summary,
  access: d.access,
  rate: d.rate,
  bodyLimit: d.bodyLimit ?? 'json',
  errors: d.errors ?? 'plinth',
  anyOrigin: d.anyOrigin ?? d.access.kind === 'key',
  textBody: false,
  anyBody: false,
  readBody: undefined,
  deep: d.deep ?? null,
  params: paramsOf(d.path),
  query: d.query,
  body: takesBody(d.method) ? z.unknown() : undefined,
  status: 200,
  response: undefined,
  mediaType: d.mediaType ?? 'application/json',
  auditAction: undefined,
  beforeReplay: () => Promise.resolve(),
  work: { kind: 'raw', handle: d.handle as unknown as RawWork['handle'] },
});
