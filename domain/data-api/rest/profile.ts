import { DataError } from '#domain/data-api/errors.ts';
import type { RestRequest } from './request.ts';

const publicSchema = 'public';

/**
 * The schema that a request is about: `Accept-Profile` for GET and HEAD, `Content-Profile` for the others (PostgREST,
 * "Schemas"). Without the header it is `public`.
 * @param exposed the schemas beside public that the project's settings name
 * @throws {DataError} PGRST106 when it is not exposed: to take another one would read and write the wrong table
 */
export const schemaNameOf = ({ method, header }: RestRequest, exposed: readonly string[]): string => {
  const isRead = method === 'GET' || method === 'HEAD';
  const name = header(isRead ? 'accept-profile' : 'content-profile') || publicSchema;
  if (name === publicSchema || exposed.includes(name)) return name;
  throw new DataError(406, 'PGRST106', `Invalid schema: ${name.slice(0, 200)}`, {
    hint: `Only the following schemas are exposed: ${[publicSchema, ...exposed].join(', ')}`,
  });
};

/**
 * A batch is about one schema, that of its own header.
 * @throws {DataError} PGRST106 when one of its requests names another
 */
export const requireSameSchema = ({ header }: RestRequest, schema: string): void => {
  const named = [header('accept-profile'), header('content-profile')];
  const other = named.find((name) => name !== '' && name !== schema);
  if (other === undefined) return;
  throw new DataError(406, 'PGRST106', `Invalid schema: ${other.slice(0, 200)}`, {
    hint: `The requests of this batch are about the schema ${schema}, as its Content-Profile says.`,
  });
};
