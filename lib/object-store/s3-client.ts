import { S3Client } from '@aws-sdk/client-s3';
import { ServiceError } from '#lib/errors.ts';
import { StoreFullError, StoreUnavailableError } from './errors.ts';

export interface S3Settings {
  readonly bucket: string;
  readonly region: string;
  /** Left out: that of Amazon S3. */
  readonly endpoint?: string | undefined;
  /** Left out: the AWS client looks in its usual places, such as the role of the machine. */
  readonly accessKeyId?: string | undefined;
  readonly secretAccessKey?: string | undefined;
  /** `endpoint/bucket/key` in place of `bucket.endpoint/key`, as most servers beside Amazon's want it. */
  readonly forcePathStyle: boolean;
  /** Until the server has taken a request and begun to answer it; 30 s unless given. A part has 8 MB at most. */
  readonly requestTimeoutMs?: number;
  /** Above this size, 5 GB unless given, a copy is made in parts: S3 refuses larger ones in one request. */
  readonly maxCopyBytes?: number;
}

/** An open bucket, which the functions of the driver take first. */
export interface S3Bucket {
  readonly client: S3Client;
  readonly name: string;
  readonly maxCopyBytes: number;
}

const gib = 2 ** 30;

// A connection that carries nothing for so long is given up, also in the middle of a download.
const silentMs = 60_000;

// Beyond them requests wait in the process: an S3 server under load would refuse them.
const maxSockets = 200;

const credentialsOf = ({ accessKeyId, secretAccessKey }: S3Settings) =>
  accessKeyId === undefined || secretAccessKey === undefined ? {} : { credentials: { accessKeyId, secretAccessKey } };

export const openBucket = (settings: S3Settings): S3Bucket => ({
  name: settings.bucket,
  maxCopyBytes: settings.maxCopyBytes ?? 5 * gib,
  client: new S3Client({
    region: settings.region,
    ...(settings.endpoint !== undefined && { endpoint: settings.endpoint }),
    ...credentialsOf(settings),
    forcePathStyle: settings.forcePathStyle,
    // Three retries with back-off and jitter for 500, 503 and lost connections.
    maxAttempts: 4,
    retryMode: 'standard',
    // The client's newer checksums are trailers that many servers refuse. Each body is signed with its SHA-256 instead.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: {
      connectionTimeout: 3000,
      requestTimeout: settings.requestTimeoutMs ?? 30_000,
      throwOnRequestTimeout: true,
      socketTimeout: silentMs,
      httpAgent: { maxSockets },
      httpsAgent: { maxSockets },
    },
  }),
});

const fullNames = new Set([
  'XMinioStorageFull',
  'XMinioAdminBucketQuotaExceeded',
  'QuotaExceeded',
  'InsufficientStorage',
]);

const statusOf = (error: unknown): number | undefined =>
  (error as { $metadata?: { httpStatusCode?: number } } | null)?.$metadata?.httpStatusCode;

const nameOf = (error: unknown): string => (error instanceof Error ? error.name : '');

/** Whether the server says that there is nothing, and not that its bucket is missing. */
const isMissing = (error: unknown): boolean =>
  ['NoSuchKey', 'NotFound', 'NoSuchUpload'].includes(nameOf(error)) ||
  (statusOf(error) === 404 && nameOf(error) !== 'NoSuchBucket');

export const isRangeBeyondEnd = (error: unknown): boolean => statusOf(error) === 416;

const failureOf = (error: unknown, signal: AbortSignal | undefined): unknown => {
  if (signal?.aborted === true) return signal.reason;
  if (error instanceof ServiceError) return error;
  if (fullNames.has(nameOf(error)) || statusOf(error) === 507) return new StoreFullError(error);
  return new StoreUnavailableError(error);
};

/** The options of a request that a signal ends. */
export const until = (signal: AbortSignal | undefined) => (signal ? { abortSignal: signal } : {});

/** The answer of a request; its failure is one of the store, or the signal's reason. */
export const answerOf = async <T>(request: Promise<T>, signal?: AbortSignal): Promise<T> => {
  try {
    return await request;
  } catch (error) {
    throw failureOf(error, signal);
  }
};

/** As `answerOf`, and null for what the server does not have. */
export const answerIfAny = <T>(request: Promise<T>, signal?: AbortSignal): Promise<T | null> =>
  answerOf(
    request.catch((error: unknown) => {
      if (isMissing(error)) return null;
      throw error;
    }),
    signal,
  );
