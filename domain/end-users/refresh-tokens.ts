import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Project } from '#domain/projects/store.ts';
import type { EndUserDeps } from './end-users.ts';

/*
 * A refresh token is derived and not stored: the session's id, the token's number, and a MAC over both with a key of
 * the project. A made-up one is refused without a look into the database, and a dump of it lets nobody in.
 */
const prefix = 'plinth_ur_';
const idBytes = 16;
const numberBytes = 4;
const macBytes = 32;

const macOf = (key: Buffer, body: Buffer): Buffer => createHmac('sha256', key).update(body).digest();

/** The number of a session's token: each is traded for the next one. */
export interface NumberedSession {
  readonly id: string;
  readonly number: number;
}

export const refreshKey = (
  { sealer }: Pick<EndUserDeps, 'sealer'>,
  project: Pick<Project, 'id' | 'data_key'>,
): Buffer => sealer(project).keyFor('end-user-refresh-tokens');

export const refreshTokenOf = (key: Buffer, { id, number }: NumberedSession): string => {
  const body = Buffer.alloc(idBytes + numberBytes);
  body.write(id.replaceAll('-', ''), 'hex');
  body.writeUInt32BE(number, idBytes);
  return prefix + Buffer.concat([body, macOf(key, body)]).toString('base64url');
};

/** @returns null when the token is not one of the project's */
export const readRefreshToken = (key: Buffer, token: string): NumberedSession | null => {
  if (!token.startsWith(prefix)) return null;
  const bytes = Buffer.from(token.slice(prefix.length), 'base64url');
  if (bytes.length !== idBytes + numberBytes + macBytes) return null;
  const body = bytes.subarray(0, idBytes + numberBytes);
  if (!timingSafeEqual(macOf(key, body), bytes.subarray(idBytes + numberBytes))) return null;
  const hex = body.toString('hex', 0, idBytes);
  const id = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
  return { id, number: body.readUInt32BE(idBytes) };
};

/** The same for the same session and number: a refresh that is repeated gets the same access token. */
export const tokenIdOf = (key: Buffer, { id, number }: NumberedSession): string =>
  macOf(key, Buffer.from(`jti ${id} ${number}`)).toString('hex', 0, idBytes);
