import { DataError } from '#domain/data-api/errors.ts';

/** In which form rows go out. */
export interface Form {
  readonly kind: 'array' | 'object' | 'csv';
  /** Keys whose value is null are left out. */
  readonly stripNulls: boolean;
  /** For `Content-Type`. */
  readonly type: string;
}

const objectType = 'application/vnd.pgrst.object';
const arrayType = 'application/vnd.pgrst.array';

const json: Form = { kind: 'array', stripNulls: false, type: 'application/json; charset=utf-8' };
const csv: Form = { kind: 'csv', stripNulls: false, type: 'text/csv; charset=utf-8' };

const pgrst = (kind: 'array' | 'object', stripNulls: boolean): Form => {
  const name = kind === 'object' ? objectType : arrayType;
  return { kind, stripNulls, type: `${name}+json;${stripNulls ? ' nulls=stripped;' : ''} charset=utf-8` };
};

interface Range {
  readonly type: string;
  readonly parameters: string;
  readonly quality: number;
}

const rangeOf = (text: string): Range => {
  const [type = '', ...rest] = text.split(';').map((part) => part.trim().toLowerCase());
  const q = rest.find((part) => part.startsWith('q='))?.slice(2);
  const quality = q === undefined ? 1 : Number(q);
  return { type, parameters: rest.join(';'), quality: Number.isFinite(quality) ? quality : 0 };
};

const formOf = ({ type, parameters }: Range): Form | undefined => {
  const bare = type.replace(/\+json$/, '');
  if (bare === objectType) return pgrst('object', parameters.includes('nulls=stripped'));
  if (bare === arrayType) return parameters.includes('nulls=stripped') ? pgrst('array', true) : json;
  if (type === 'application/json' || type === 'application/*' || type === '*/*') return json;
  if (type === 'text/csv' || type === 'text/*') return csv;
  return undefined;
};

/**
 * The form that `Accept` asks for, the most wanted first.
 * @throws {DataError} PGRST107 when it takes none that there is
 */
export const negotiate = (accept: string): Form => {
  if (accept === '' || accept === '*/*' || accept === 'application/json') return json;
  const ranges = accept
    .split(',')
    .map(rangeOf)
    .filter(({ type, quality }) => type !== '' && quality > 0)
    .toSorted((a, b) => b.quality - a.quality);
  for (const range of ranges) {
    const form = formOf(range);
    if (form !== undefined) return form;
  }
  throw new DataError(406, 'PGRST107', `None of these media types are available: ${accept.slice(0, 200)}`);
};

/** How a result of not exactly one row is refused where one was asked for. */
export const notSingular = (rows: number): DataError =>
  new DataError(406, 'PGRST116', 'Cannot coerce the result to a single JSON object', {
    details: `The result contains ${rows} rows`,
  });
