import { hash } from 'node:crypto';
import { z } from 'zod';
import { type PackedFiles, packFiles } from '#domain/functions/files.ts';
import { ServiceError } from '#lib/errors.ts';
import { type JsonParser, maxInlineBytes } from '#lib/json-parser.ts';
import type { Reader } from '#lib/json-thread.ts';
import type { BodyReader } from '#api/endpoint.ts';
import { checkBody } from '#api/validate.ts';

/** The files of a function on their way in: up to 10 MB of texts, which a thread checks and makes one text of. */

const packed = (files: unknown): PackedFiles => files as PackedFiles;

/** How files are written in a body. `deployBody` reads them apart from it. */
export const filesField = z
  .record(z.string(), z.string())
  .transform(packed)
  .describe('In place of code: the text of each file by its path. JavaScript is bundled, Python runs as it is.');

interface SplitBody {
  /** The body without its files. */
  readonly rest: unknown;
  readonly files: ReturnType<typeof packFiles> | undefined;
}

const split = (value: unknown): SplitBody => {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, 'files'))
    return { rest: value, files: undefined };
  const { files, ...rest } = value as Record<string, unknown>;
  return { rest, files: packFiles(files) };
};

export const readDeploy: Reader = (text) => ({ value: split(JSON.parse(text)) });

const reader = { module: import.meta.url, name: 'readDeploy' } as const;

const splitBody = async (json: JsonParser, bytes: Buffer, owner: string): Promise<SplitBody> => {
  if (bytes.length === 0) return { rest: undefined, files: undefined };
  if (bytes.length > maxInlineBytes) return (await json.read(bytes, reader, { owner })) as SplitBody;
  return split((await json.parse(bytes, { owner })).value);
};

/** Reads a body that may have files. @param schema of the body; its field `files` is left out of the check */
export const deployBody = (schema: z.ZodObject): BodyReader => {
  const body = schema.omit({ files: true });
  return async (json, bytes, owner) => {
    const { rest, files } = await splitBody(json, bytes, owner);
    if (files !== undefined && 'faults' in files)
      throw new ServiceError('validation_failed', 'The body is not valid.', { details: files.faults });
    const value = { ...(checkBody({ body }, rest) as object), ...(files && { files }) };
    return { value, digest: hash('sha256', bytes) };
  };
};
