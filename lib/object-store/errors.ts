import { ServiceError } from '#lib/errors.ts';

/** More bytes came than the write may have. Callers who know the limit's setting answer with a better message. */
export class TooLargeError extends ServiceError {
  readonly maxBytes: number;

  constructor(maxBytes: number) {
    super('payload_too_large', `The file is larger than the limit of ${maxBytes} bytes.`);
    this.maxBytes = maxBytes;
  }
}

/** The body ended before or after the length that was announced for it. */
export class SizeMismatchError extends ServiceError {
  constructor(announced: number, came: number) {
    super('validation_failed', 'The body has another length than was announced.', {
      details: [{ path: 'content-length', message: `announced ${announced} bytes, and ${came} came` }],
    });
  }
}

/** The store has no room. Nothing of the write is left. */
export class StoreFullError extends ServiceError {
  constructor(cause: unknown) {
    super('storage_full', 'The storage of this installation has no room for the file.', {
      hint: 'Nothing of it was kept. An operator must add room.',
      cause,
    });
  }
}

/** The store does not answer, or not as it should. */
export class StoreUnavailableError extends ServiceError {
  constructor(cause: unknown) {
    super('dependency_unavailable', 'The file storage does not answer. Try again shortly.', {
      headers: { 'Retry-After': '2' },
      cause,
    });
  }
}
