import { createHash } from 'node:crypto';

/** The content of an object, once its bytes are stored. */
interface ObjectContent {
  readonly version: string;
  readonly size: number;
  /** SHA-256 in hexadecimal digits. */
  readonly etag: string;
  readonly mime_type: string;
  readonly cache_control: string;
  readonly user_metadata: Readonly<Record<string, unknown>>;
}

export interface Owner {
  /** The subject of the user; null: a key. */
  readonly owner: string | null;
  /** The same, where it is a UUID. */
  readonly owner_id: string | null;
}

/** A write that the platform allows (migrations/project/0030_storage.sql); policies may still refuse it. */
export type Ticket =
  | ({
      readonly op: 'put';
      readonly id: string;
      readonly bucket: string;
      readonly name: string;
      /** All files of the project together; null: no limit. */
      readonly max_bytes: number | null;
    } & ObjectContent &
      Owner)
  | {
      readonly op: 'move';
      readonly from_bucket: string;
      readonly from_name: string;
      readonly bucket: string;
      readonly name: string;
    }
  /** Null: all that the bucket has. */
  | { readonly op: 'delete'; readonly bucket: string; readonly names: readonly string[] | null }
  | ({
      readonly op: 'bucket';
      readonly bucket: string;
      readonly public: boolean;
      readonly file_size_limit: number | null;
      readonly allowed_mime_types: readonly string[] | null;
      readonly max_buckets: number;
    } & Owner)
  | { readonly op: 'bucket-delete'; readonly bucket: string };

/** Longer than a statement may take; the clocks of API and database may differ by some of it. */
const lifetimeS = 300;

const keyed = (key: Buffer, round: number, message: string | Buffer): Buffer =>
  createHash('sha256').update(key).update(Buffer.of(round)).update(message).digest();

/** Signs a ticket: SHA-256 twice, keyed each time, since PostgreSQL itself has no HMAC. */
export const signTicket = (key: Buffer, ticket: Ticket, nowMs = Date.now()): string => {
  const body = JSON.stringify({ ...ticket, exp: Math.floor(nowMs / 1000) + lifetimeS });
  return `${keyed(key, 2, keyed(key, 1, body)).toString('hex')}.${body}`;
};
