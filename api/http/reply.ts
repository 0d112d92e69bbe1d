import type { Readable } from 'node:stream';
import { z } from 'zod';
import { stringifyWithTexts } from '#lib/json-text.ts';
import { type Endpoint, RawReply } from '#api/endpoint.ts';

/** An answer on its way out: everything but the headers that the call set. */
export interface Reply {
  readonly status: number;
  readonly type: string | undefined;
  /** Texts are the pieces of one, in order. */
  readonly body: string | readonly string[] | Buffer | Readable | null;
}

export const jsonType = 'application/json; charset=utf-8';

export const jsonReply = (status: number, value: unknown): Reply => ({
  status,
  type: jsonType,
  body: stringifyWithTexts(value),
});

/** The handler's result in the promised shape: fields that the schema does not name are left out. */
export const replyOf = (endpoint: Endpoint, value: unknown): Reply => {
  if (value instanceof RawReply) return { status: value.status, type: value.type ?? undefined, body: value.body };
  if (endpoint.response === undefined) return { status: endpoint.status, type: undefined, body: null };
  return jsonReply(endpoint.status, z.encode(endpoint.response, value));
};

const onceFields = (schema: z.ZodType | undefined): string[] =>
  schema instanceof z.ZodObject
    ? Object.entries(schema.shape)
        .filter(([, field]) => (field as z.ZodType).meta()?.['shownOnce'] === true)
        .map(([field]) => field)
    : [];

/** The answer as it is kept for a replay: without what is shown once. */
export const withoutSecrets = (endpoint: Endpoint, { body }: Reply): string => {
  const fields = onceFields(endpoint.response);
  if (typeof body !== 'string') return '';
  if (fields.length === 0) return body;
  const kept = Object.entries(JSON.parse(body) as object).filter(([field]) => !fields.includes(field));
  return JSON.stringify(Object.fromEntries(kept));
};
