import { DataStore, Upload } from '@tus/server';
import { ServiceError, notFound } from '#lib/errors.ts';
import type { StoredBytes } from '#lib/object-store/object-store.ts';
import type { BodyChecksum, FoundUpload, ResumableUploads, UploadInfo } from './uploads.ts';

export interface TusStoreOptions {
  readonly uploads: ResumableUploads;
  /** The info of an upload that is being created by the request under way. */
  readonly newInfo: (upload: Upload) => UploadInfo;
  /** The checksum that the request under way announces for its body. */
  readonly checksum: () => BodyChecksum | undefined;
  readonly onFinished: (upload: UploadInfo, stored: StoredBytes) => Promise<void>;
  readonly onRemoved: (upload: UploadInfo) => Promise<void>;
  readonly lifeMs: number;
}

/**
 * The store that @tus/server works with, over either driver. An upload ends here, under its lock: a request that brings
 * the last byte, or finds that all bytes are there and the end was cut off, completes it before it answers. So a client
 * that sees the full offset knows that its file is there.
 */
export class TusStore extends DataStore {
  readonly #options: TusStoreOptions;

  constructor(options: TusStoreOptions) {
    super();
    this.#options = options;
    this.extensions = ['creation', 'creation-with-upload', 'expiration', 'checksum', 'termination'];
  }

  override async create(upload: Upload): Promise<Upload> {
    const info = this.#options.newInfo(upload);
    await this.#options.uploads.create(info);
    upload.creation_date = new Date(info.createdAt).toISOString();
    await this.#end({ info, offset: 0 });
    return upload;
  }

  /** Takes the body of a request, as `write` of the library would. @returns the new offset */
  async append(id: string, chunks: AsyncIterable<Uint8Array>): Promise<number> {
    const found = await this.#find(id);
    const offset = await this.#options.uploads.append(found, chunks, this.#options.checksum());
    await this.#end({ ...found, offset });
    return offset;
  }

  override async getUpload(id: string): Promise<Upload> {
    const found = await this.#find(id);
    await this.#end(found);
    const { size, metadata, createdAt } = found.info;
    return new Upload({ id, size, offset: found.offset, metadata, creation_date: new Date(createdAt).toISOString() });
  }

  override async remove(id: string): Promise<void> {
    const { info } = await this.#find(id);
    await this.#options.uploads.remove(id);
    await this.#options.onRemoved(info);
  }

  override getExpiration(): number {
    return this.#options.lifeMs;
  }

  async #find(id: string): Promise<FoundUpload> {
    const found = await this.#options.uploads.find(id);
    if (found === null) throw notFound('upload');
    if (found.info.expiresAt <= Date.now())
      throw new ServiceError('expired', 'The time for this upload is over. Begin it anew.');
    return found;
  }

  async #end({ info, offset }: FoundUpload): Promise<void> {
    if (offset < info.size || info.finished === true) return;
    const { uploads, onFinished } = this.#options;
    await onFinished(info, await uploads.complete(info));
    await uploads.markFinished(info.id);
  }
}
