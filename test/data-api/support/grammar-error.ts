import { DataError } from '#domain/data-api/errors.ts';
import { type ParseOptions, parseQuery } from '#domain/data-api/rest/grammar/query.ts';

/** The refusal of a query string. */
export const grammarError = (query: string, options: ParseOptions = {}): DataError => {
  try {
    parseQuery(query, options);
  } catch (error) {
    if (error instanceof DataError) return error;
    throw error;
  }
  throw new Error(`${query} is read without an error`);
};

/** One parameter of a query string. */
export const encoded = (key: string, value: string): string =>
  `${encodeURIComponent(key)}=${encodeURIComponent(value)}`;
