import type { AiCaller, Gateway } from '#domain/ai/gateway/types.ts';
import type { Vector } from '#domain/ai/providers/dialect.ts';
import { ServiceError } from '#lib/errors.ts';
import type { Collection } from './collections.ts';

/** The largest number of a half-precision float; those of a `vector` have single precision. */
const maxComponent = { vector: 3.402_823_466_385_288_6e38, halfvec: 65_504 } as const;
/** Between which lengths vectors can be compared: the database squares their numbers in single precision. */
const maxNorm = 1e18;
const minNorm = { vector: 1e-15, halfvec: 1e-2 } as const;

const unusable = (why: string): ServiceError =>
  new ServiceError('provider_bad_output', `The provider answered with a vector that ${why}.`);

type Shape = Pick<Collection, 'name' | 'dimensions' | 'column_type'>;

/** @throws {ServiceError} `dimension_mismatch`, `provider_bad_output` */
const checked = (vector: Vector, { name, dimensions, column_type: type }: Shape, model: string) => {
  if (vector.length !== dimensions) {
    throw new ServiceError(
      'dimension_mismatch',
      `The collection ${JSON.stringify(name)} holds vectors of ${dimensions} dimensions; ${model} makes ${vector.length}.`,
      {
        details: { expected: dimensions, actual: vector.length },
        hint: 'Use a model of that many dimensions, or make another collection.',
      },
    );
  }
  const floats = Float32Array.from(vector);
  if (!vector.every((value) => Math.abs(value) <= maxComponent[type])) throw unusable('is not made of finite numbers');
  // It has no direction, and so no cosine.
  if (floats.every((value) => value === 0)) throw unusable('is zero');
  const length = Math.sqrt(floats.reduce((sum, value) => sum + value * value, 0));
  if (length > maxNorm) throw unusable('is too long to be compared with others');
  if (length < minNorm[type]) throw unusable('is too short to be compared with others');
  return floats;
};

/** Vectors that are known to fit the collection. */
export type Vectors = readonly Float32Array[];

/**
 * Has texts embedded for a collection, one vector for each.
 * @param model `provider/model`
 * @param texts at most 2,048
 * @throws {ServiceError} `dimension_mismatch`, `provider_bad_output`; what the gateway throws
 */
export const embedFor = async (
  gateway: Pick<Gateway, 'embed'>,
  caller: AiCaller,
  collection: Shape,
  { model, texts }: { readonly model: string; readonly texts: readonly string[] },
): Promise<Vectors> => {
  const { vectors } = await gateway.embed(caller, { model, input: texts });
  if (vectors.length !== texts.length) throw new ServiceError('provider_bad_output', 'Not every text has a vector.');
  return vectors.map((vector) => checked(vector, collection, model));
};

/** In the text form of pgvector. */
export const vectorText = (vector: Float32Array): string => `[${vector.join(',')}]`;

const arrayHeader = 20;
const vectorHeader = 8;

/**
 * An array of vectors as the server takes it in binary, which costs a tenth of reading the numbers as text.
 * @param type the number of the type `vector` in that database
 */
export const vectorArray = (vectors: Vectors, type: number): Buffer => {
  const length = vectors.reduce((sum, vector) => sum + vectorHeader + vector.length * 4, arrayHeader);
  const into = Buffer.alloc(length);
  // One dimension, no nulls, the type, how many, counted from 1.
  [1, 0, type, vectors.length, 1].forEach((value, index) => into.writeUInt32BE(value, index * 4));
  let at = arrayHeader;
  for (const vector of vectors) {
    at = into.writeUInt32BE(4 + vector.length * 4, at);
    at = into.writeUInt32BE(vector.length * 65_536, at);
    for (const value of vector) at = into.writeFloatBE(value, at);
  }
  return into;
};
