import type { z } from 'zod';
import type { Document } from '#domain/vectors/documents.ts';
import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { parseExactJson } from '#lib/json.ts';
import { maxMetadataLength, type newDocuments } from './vector-shapes.ts';

/** Bodies that their shape has let through, with their JSON as it was written: numbers that JavaScript cannot hold, too. */

interface Exact {
  readonly documents: readonly { readonly metadata?: unknown }[];
}

const tooLong = (index: number): ServiceError =>
  new ServiceError('validation_failed', 'The body is not valid.', {
    details: [{ path: `documents.${index}.metadata`, message: `must be at most ${maxMetadataLength} bytes of JSON` }],
  });

/** @throws {ServiceError} `validation_failed` for metadata that are too long */
export const documentsOf = (body: z.output<typeof newDocuments>, bodyText: string): Document[] => {
  const exact = (parseExactJson(bodyText) as Exact).documents;
  return body.documents.map(({ id = newId(), content }, index) => {
    const metadata = JSON.stringify(exact[index]?.metadata ?? {});
    if (Buffer.byteLength(metadata) > maxMetadataLength) throw tooLong(index);
    return { id, content, metadata };
  });
};

/** @returns null: no filter */
export const filterOf = (bodyText: string): string | null => {
  const { filter = null } = parseExactJson(bodyText) as { readonly filter?: unknown };
  return filter === null ? null : JSON.stringify(filter);
};
