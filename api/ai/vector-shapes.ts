import { z } from 'zod';
import type { Document } from '#domain/vectors/documents.ts';
import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { id, namedObject, text } from '../fields.ts';
import { exactJson } from '../http/exact-body.ts';

/** Vectors as their project sees them (contract, section 8). */

export const projectPath = z.object({ project_id: id });
// The catalog answers for longer names: there are none.
export const collectionPath = projectPath.extend({ collection: text(1000, 1) });
export const documentPath = collectionPath.extend({ document: text(1000, 1) });

const maxDepth = 100;

/** Why a value cannot be kept as jsonb as it is; null: it can. */
const flawOf = (value: unknown, depth = 0): string | null => {
  if (typeof value === 'string') {
    if (value.includes('\0')) return 'must not contain NUL';
    return value.isWellFormed() ? null : 'must be well-formed Unicode';
  }
  if (typeof value !== 'object' || value === null) return null;
  if (depth === maxDepth) return `must not be nested deeper than ${maxDepth} levels`;
  // A record would drop this name without a word.
  if (Object.hasOwn(value, '__proto__')) return '__proto__ is not possible as a name';
  for (const [key, inner] of Object.entries(value)) {
    const flaw = flawOf(key) ?? flawOf(inner, depth + 1);
    if (flaw !== null) return flaw;
  }
  return null;
};

const refuseFlaws = (value: unknown, context: z.core.$RefinementCtx): unknown => {
  const message = flawOf(value);
  if (message !== null) context.addIssue({ code: 'custom', message });
  return value;
};

const jsonObject = z.preprocess(refuseFlaws, z.record(z.string(), z.unknown()));

export const newCollection = z.strictObject({
  name: z.string().regex(/^(?!pg_)[a-z][a-z0-9_]{0,40}$/, {
    error: 'must be a lower-case letter, followed by at most 40 lower-case letters, digits and _; not pg_…',
  }),
  dimensions: z.int().min(1).describe('At most 16,000.'),
});

export const collection = namedObject('VectorCollection', {
  name: z.string(),
  dimensions: z.int(),
  document_count: z.int(),
  index: z.enum(['hnsw', 'none']),
  model: z.string().nullable().describe('What the documents are embedded with; null until there are some.'),
  created_at: z.string(),
  warning: z.string().optional(),
});

const maxDocuments = 1000;
const maxContentLength = 100_000;
/** Bytes of JSON. */
const maxMetadataLength = 65_536;

const document = z.strictObject({
  id: text(512, 1).optional().describe('The same id replaces; left out: a new one is made.'),
  content: text(maxContentLength, 1),
  metadata: jsonObject.default({}).describe('At most 64 KB of JSON.'),
});

const refuseDuplicates = (
  documents: readonly { readonly id?: string | undefined }[],
  context: z.core.$RefinementCtx,
) => {
  const seen = new Set<string>();
  documents.forEach(({ id: own }, index) => {
    if (own === undefined) return;
    if (seen.has(own))
      context.addIssue({ code: 'custom', path: [index, 'id'], message: 'is the id of an earlier document, too' });
    seen.add(own);
  });
};

export const newDocuments = z.strictObject({
  documents: z.array(document).min(1).max(maxDocuments).superRefine(refuseDuplicates),
  model: text(200, 1).nullish().describe('An embedding model; left out: the one of the collection.'),
});

export const upserted = z.object({ upserted: z.int(), unchanged: z.int(), ids: z.array(z.string()) });

export const query = z.strictObject({
  query: text(maxContentLength, 1),
  limit: z.int().min(1).max(200).default(10),
  filter: jsonObject.nullish().describe('What the metadata must contain.'),
});

export const results = z.object({
  results: z.array(
    z.object({
      id: z.string(),
      content: z.string(),
      similarity: z.number().describe('1 minus the cosine distance.'),
      metadata: z.unknown(),
    }),
  ),
});

/**
 * Bodies that their shape has let through, with their JSON as it was written: numbers that JavaScript cannot hold, too.
 */

/** In the metadata of all documents, and a few besides. */
const maxExactValues = 100_000;

interface Exact {
  readonly documents: readonly { readonly metadata?: unknown }[];
}

const tooLong = (index: number): ServiceError =>
  new ServiceError('validation_failed', 'The body is not valid.', {
    details: [{ path: `documents.${index}.metadata`, message: `must be at most ${maxMetadataLength} bytes of JSON` }],
  });

/** @throws {ServiceError} `validation_failed` for metadata that are too long */
export const documentsOf = (body: z.output<typeof newDocuments>, bodyText: string): Document[] => {
  const exact = (exactJson(bodyText, maxExactValues) as Exact).documents;
  return body.documents.map(({ id = newId(), content }, index) => {
    const metadata = JSON.stringify(exact[index]?.metadata ?? {});
    if (Buffer.byteLength(metadata) > maxMetadataLength) throw tooLong(index);
    return { id, content, metadata };
  });
};

/** @returns null: no filter */
export const filterOf = (bodyText: string): string | null => {
  const { filter = null } = exactJson(bodyText, maxExactValues) as { readonly filter?: unknown };
  return filter === null ? null : JSON.stringify(filter);
};
