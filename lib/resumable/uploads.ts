import { z } from 'zod';
import type { StoredBytes } from '#lib/object-store/object-store.ts';

/** How long an upload may take from its creation on. The sweep of unfinished writes waits longer. */
export const uploadLifeMs = 24 * 3_600_000;

/** A client whose answer was lost learns for so long that its upload has ended. */
const finishedLifeMs = 3_600_000;

/** The facts of an upload whose end is recorded. They go soon: a tenant can end any number of small uploads in a day. */
export const asFinished = (info: UploadInfo): UploadInfo => ({
  ...info,
  finished: true,
  expiresAt: Math.min(info.expiresAt, Date.now() + finishedLifeMs),
});

const infoSchema = z.strictObject({
  id: z.uuid(),
  /** The key that the finished bytes get: made by the platform. */
  key: z.string(),
  size: z.number(),
  createdAt: z.number(),
  expiresAt: z.number(),
  /** As the client sent it, e.g. `filename`. It names no file. */
  metadata: z.record(z.string(), z.string().nullable()),
  /** As `beforeCreate` gave it: whose upload it is, and what its row needs. */
  context: z.record(z.string(), z.unknown()),
  /** Set as soon as all bytes are there. */
  sha256: z.string().optional(),
  /** Whether `onFinished` has been called with success. */
  finished: z.boolean().optional(),
  /** For S3. */
  multipart: z.strictObject({ uploadId: z.string(), mark: z.string(), partSize: z.number() }).optional(),
});

/** The facts that are kept of an upload beside its bytes. Times are milliseconds since 1970. */
export type UploadInfo = Readonly<z.output<typeof infoSchema>>;

export const parseUploadInfo = (json: string): UploadInfo => infoSchema.parse(JSON.parse(json));

export interface FoundUpload {
  readonly info: UploadInfo;
  /** How many bytes are there durably. */
  readonly offset: number;
}

/** A checksum of one request's body, by an algorithm of `node:crypto`. */
export interface BodyChecksum {
  readonly algorithm: string;
  readonly digest: Buffer;
}

/**
 * The bytes of half-finished uploads, of which each driver has one implementation. Everything is durable when it
 * resolves, and any process may go on (over disk: any process of this machine). All but `info` and `expired` are
 * called under the upload's lock.
 */
export interface ResumableUploads {
  create(info: UploadInfo): Promise<void>;
  /** The facts alone: over S3 the offset costs two more requests. */
  info(id: string): Promise<UploadInfo | null>;
  find(id: string): Promise<FoundUpload | null>;
  /**
   * Adds chunks after `offset`, which is that of `find`. When the chunks fail, those that came are kept.
   * @returns the new offset
   * @throws {ChecksumMismatch} and nothing of the chunks is kept
   */
  append(found: FoundUpload, chunks: AsyncIterable<Uint8Array>, checksum?: BodyChecksum): Promise<number>;
  /** Gives all bytes their key, whole or not at all. Called again it answers the same. */
  complete(info: UploadInfo): Promise<StoredBytes>;
  markFinished(id: string): Promise<void>;
  /** Removes what is left of an upload, and never the object of its key. */
  remove(id: string): Promise<void>;
  /** The uploads whose time is over. */
  expired(now: number): AsyncIterable<UploadInfo>;
}

/** The body is not what its checksum says; tus answers it with 460. */
export class ChecksumMismatch extends Error {}
