import { ServiceError } from '#lib/errors.ts';
import { TooManyValues, parseExactJson } from '#lib/json.ts';

const maxExactLength = 128 * 1024;

/**
 * A JSON body with its numbers as they came. Where its text may have numbers that JavaScript cannot hold it is read
 * anew, which takes ten times as long: up to 128 KB.
 */
export const exactBody = <Body>(given: Body, bodyText: string): Body =>
  bodyText.length <= maxExactLength && /\d{16}|\d[eE]/.test(bodyText) ? (parseExactJson(bodyText) as Body) : given;

/**
 * A JSON body of any size with its numbers as they came.
 * @param maxValues where numbers may have to be kept as they came: each value costs up to 1 µs of the event loop
 * @throws {ServiceError} `validation_failed` for more
 */
export const exactJson = (bodyText: string, maxValues: number): unknown => {
  try {
    return parseExactJson(bodyText, maxValues);
  } catch (error) {
    if (!(error instanceof TooManyValues)) throw error;
    throw new ServiceError(
      'validation_failed',
      `The body has more than ${maxValues} values, and numbers with fractions, exponents or over 15 digits among them.`,
      { hint: 'Send fewer at a time.' },
    );
  }
};
