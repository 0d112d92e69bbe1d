import { Busboy, type BusboyInstance } from '@fastify/busboy';
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { cacheControl, mediaType } from '#domain/storage/serving.ts';
import { maxMetadataBytes, parseMetadata } from '#domain/storage/metadata.ts';
import type { FileLimit } from '#domain/storage/limits.ts';
import { fileTooLarge } from '#domain/storage/limits.ts';
import { ServiceError } from '#lib/errors.ts';

/** A file that a client sends: as the body itself, or as the one file of a form. */
export interface Incoming {
  readonly mimeType: string;
  readonly cacheControl: string;
  readonly userMetadata: Readonly<Record<string, unknown>>;
  readonly declaredSize: number | null;
  readonly atMost?: number;
  readonly body: Readable;
}

const invalid = (field: string, message: string, cause?: unknown): ServiceError =>
  new ServiceError('validation_failed', `${field} ${message}.`, { details: [{ path: field, message }], cause });

const lengthOf = ({ headers }: IncomingMessage): number | null => {
  const given = headers['content-length'];
  if (given !== undefined) return Number(given);
  return headers['transfer-encoding'] === undefined ? 0 : null;
};

const wholeBody = (req: IncomingMessage): Incoming => {
  const { headers } = req;
  const metadata = Buffer.from(String(headers['x-metadata'] ?? ''), 'base64').toString();
  return {
    mimeType: mediaType(headers['content-type'] ?? ''),
    cacheControl: cacheControl(headers['cache-control'] ?? 'no-cache'),
    userMetadata: parseMetadata('x-metadata', metadata),
    declaredSize: lengthOf(req),
    body: req,
  };
};

/** Beside the file, a form has a few short fields. */
const formLimits = {
  files: 1,
  fields: 20,
  parts: 21,
  fieldNameSize: 100,
  fieldSize: maxMetadataBytes + 1,
  headerPairs: 50,
  headerSize: 8192,
};

const noFile = (cause?: unknown): ServiceError => invalid('body', 'must be a form with one file in it', cause);

/** The file of a form, by the fields that come before it. */
const fileOf = (
  fields: ReadonlyMap<string, string>,
  { body, mimeType, length }: { readonly body: Readable; readonly mimeType: string; readonly length: number | null },
): Incoming => ({
  mimeType: mediaType(fields.get('contentType') ?? mimeType),
  cacheControl: cacheControl(fields.get('cacheControl') ?? 'no-cache'),
  userMetadata: parseMetadata('metadata', fields.get('metadata') ?? ''),
  declaredSize: null,
  ...(length !== null && { atMost: length }),
  body,
});

/** Fields and what stands between them; a form whose file never begins would be read without end. */
const maxBeforeFile = 2 ** 20;

/** Calls back once more has come than may stand before the file. @returns what ends it */
const watchBeginning = (req: IncomingMessage, tooMuch: () => void): (() => void) => {
  let bytes = 0;
  const count = (chunk: Buffer): void => {
    bytes += chunk.length;
    if (bytes > maxBeforeFile) tooMuch();
  };
  req.on('data', count);
  return () => void req.off('data', count);
};

/** Fields that come behind the file are not read. */
const readForm = (req: IncomingMessage, form: BusboyInstance): Promise<Incoming> => {
  const fields = new Map<string, string>();
  const { promise, resolve, reject } = Promise.withResolvers<Incoming>();
  let file: Readable | undefined;
  const endWatch = watchBeginning(req, () => fail(undefined));
  const fail = (error: unknown): void => {
    endWatch();
    file?.destroy(noFile(error));
    reject(error instanceof ServiceError ? error : noFile(error));
  };
  form.on('field', (name, value) => void fields.set(name, value));
  form.on('error', fail);
  form.on('finish', () => fail(undefined));
  // oxlint-disable-next-line max-params -- the library's listener
  form.on('file', (_name, body, _filename, _encoding, mimeType) => {
    file = body;
    endWatch();
    try {
      resolve(fileOf(fields, { body, mimeType, length: lengthOf(req) }));
    } catch (error) {
      fail(error);
    }
  });
  req.pipe(form);
  return promise;
};

const formFile = async (req: IncomingMessage): Promise<Incoming> => {
  const headers = { ...req.headers, 'content-type': String(req.headers['content-type']) };
  let form: BusboyInstance;
  try {
    form = new Busboy({ headers, limits: formLimits });
  } catch (error) {
    throw noFile(error);
  }
  return readForm(req, form);
};

/** The parts of a form around its file. */
const formOverhead = 64 * 1024;

/** Before any of it is read. @throws {ServiceError} `payload_too_large` */
export const requireFits = (req: IncomingMessage, limit: FileLimit): void => {
  if ((lengthOf(req) ?? 0) > limit.bytes + formOverhead) throw fileTooLarge(limit);
};

/**
 * The file that a request holds.
 * @throws {ServiceError} `validation_failed`
 */
export const incomingFile = (req: IncomingMessage): Promise<Incoming> | Incoming =>
  /^multipart\/form-data\b/i.test(req.headers['content-type'] ?? '') ? formFile(req) : wholeBody(req);
