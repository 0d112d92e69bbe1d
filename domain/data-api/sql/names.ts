import { DataError } from '#domain/data-api/errors.ts';

/** The text of a statement ends at a NUL: what is written into it must not hold one. */
const refuseNul = (text: string): string => {
  if (text.includes('\0')) throw new DataError(400, '22021', 'A name or a key holds the character NUL.');
  return text;
};

/** A name as SQL writes it, whatever it holds. */
export const quoteName = (name: string): string => `"${refuseNul(name).replaceAll('"', '""')}"`;

/** A text constant that reads the same with `standard_conforming_strings` on and off. */
export const quoteText = (text: string): string => {
  const quoted = `'${refuseNul(text).replaceAll("'", "''")}'`;
  return quoted.includes('\\') ? ` E${quoted.replaceAll('\\', '\\\\')}` : quoted;
};

/** A one-dimensional array in the server's text form; nothing in it is read as NULL. */
export const arrayText = (elements: readonly string[]): string =>
  `{${elements.map((element) => `"${element.replaceAll(/[\\"]/g, String.raw`\$&`)}"`).join(',')}}`;

// Words that name a type in SQL's grammar only: quoted, the server would search for a type of the user's.
const grammarTypes = new Set([
  'bigint',
  'bit',
  'bit varying',
  'boolean',
  'char',
  'character',
  'character varying',
  'dec',
  'decimal',
  'double precision',
  'float',
  'int',
  'integer',
  'national character',
  'nchar',
  'real',
  'smallint',
  'time with time zone',
  'time without time zone',
  'timestamp with time zone',
  'timestamp without time zone',
]);

/** Letters, digits and `_` in words; `[]` makes it an array. */
const castForm = /^[\p{L}_][\p{L}\p{N}_$]*(?: [\p{L}\p{N}_$]+)*(?:\[\])?$/u;

/**
 * A type's name as SQL writes it, in lower case as SQL would read it.
 * @throws {DataError} PGRST100 when it is no name
 */
export const typeName = (cast: string): string => {
  if (!castForm.test(cast)) throw new DataError(400, 'PGRST100', `"${cast}" is not the name of a type.`);
  const isArray = cast.endsWith('[]');
  const name = (isArray ? cast.slice(0, -2) : cast).toLowerCase();
  return (grammarTypes.has(name) ? name : quoteName(name)) + (isArray ? '[]' : '');
};
