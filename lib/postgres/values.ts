/** Converts a value in the server's text form to JSON text. */
export type ToJson = (text: string) => string;

const asText: ToJson = (text) => JSON.stringify(text);
const asIs: ToJson = (text) => text;
const asBoolean: ToJson = (text) => (text === 't' ? 'true' : 'false');
/** `NaN`, `Infinity` and `-Infinity` stay text: JSON has no word for them. */
const asFloat: ToJson = (text) => (/[NI]/.test(text) ? asText(text) : text);
const asBigint: ToJson = (text) => (Number.isSafeInteger(Number(text)) ? text : asText(text));
/** A number of any length; `NaN` and infinities stay text, as `to_json` writes them. */
const asExact: ToJson = asFloat;

const isoForm = /^(\d{4,}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)(?:([+-]\d\d)(:\d\d(?::\d\d)?)?)?( BC)?$/;

/** As `to_json` writes them. What is not in the ISO style (infinity, another DateStyle) stays as it is. */
const asTimestamp: ToJson = (text) => {
  const [, date, time, hours, minutes = ':00', era = ''] = isoForm.exec(text) ?? [];
  if (date === undefined) return asText(text);
  return asText(`${date}T${time}${hours === undefined ? '' : hours + minutes}${era}`);
};

/** A parsed array literal: elements as they are written, NULL as null. */
type Elements = readonly (string | null | Elements)[];

const quote = 0x22;
const backslash = 0x5c;

/** As bytes: putting a text of 16 MB together of its characters took 0.4 s of the event loop, now 0.04 s. */
const unescaped = (text: string): string => {
  const bytes = Buffer.from(text);
  let length = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    if (bytes[at] === backslash) at += 1;
    bytes[length] = bytes[at] ?? 0;
    length += 1;
  }
  return bytes.toString('utf8', 0, length);
};

/** One element from `start` on, with where it ends. */
const readElement = (text: string, start: number): { value: string | null; end: number } => {
  if (text[start] !== '"') {
    let end = start;
    while (end < text.length && text[end] !== ',' && text[end] !== '}') end += 1;
    const bare = text.slice(start, end);
    return { value: bare === 'NULL' ? null : bare, end };
  }
  let hasBackslash = false;
  let at = start + 1;
  for (let code = text.charCodeAt(at); at < text.length && code !== quote; code = text.charCodeAt(at)) {
    if (code === backslash) {
      hasBackslash = true;
      at += 1;
    }
    at += 1;
  }
  const written = text.slice(start + 1, at);
  return { value: hasBackslash ? unescaped(written) : written, end: at + 1 };
};

/** @throws {RangeError} when the text is no array literal */
const readArray = (text: string): Elements => {
  // Bounds that do not begin at 1 come first: `[0:2]={…}`.
  let at = text.startsWith('[') ? text.indexOf('=') + 1 : 0;
  const open: (string | null | Elements)[][] = [[]];
  while (at < text.length) {
    const char = text[at];
    if (char === '{') {
      const inner: (string | null | Elements)[] = [];
      open.at(-1)?.push(inner);
      open.push(inner);
      at += 1;
    } else if (char === '}') {
      open.pop();
      at += 1;
    } else if (char === ',') at += 1;
    else {
      const { value, end } = readElement(text, at);
      open.at(-1)?.push(value);
      at = end;
    }
  }
  const [whole] = open[0] ?? [];
  if (open.length !== 1 || !Array.isArray(whole)) throw new RangeError('not an array literal');
  return whole;
};

const elementsToJson = (elements: Elements, toJson: ToJson): string => {
  const parts = elements.map((element) => {
    if (element === null) return 'null';
    return typeof element === 'string' ? toJson(element) : elementsToJson(element, toJson);
  });
  return `[${parts.join(',')}]`;
};

const arrayOf =
  (element: ToJson): ToJson =>
  (text) =>
    elementsToJson(readArray(text), element);

// Type numbers as pg_type.dat of PostgreSQL fixes them: `[type, its array type, how it is written]`.
const builtIn: readonly (readonly [type: number, array: number, toJson: ToJson])[] = [
  [16, 1000, asBoolean],
  [21, 1005, asIs],
  [23, 1007, asIs],
  [26, 1028, asIs],
  [20, 1016, asBigint],
  [700, 1021, asFloat],
  [701, 1022, asFloat],
  [114, 199, asIs],
  [3802, 3807, asIs],
  [1114, 1115, asTimestamp],
  [1184, 1185, asTimestamp],
  // bytea, "char", name, text, bpchar, varchar, date, time, timetz, interval, numeric, uuid, inet, cidr, bit, varbit,
  // money, xml, macaddr, point, int4range, int8range, numrange, daterange, tsrange, tstzrange, tsvector, jsonpath
  ...(
    [
      [17, 1001],
      [18, 1002],
      [19, 1003],
      [25, 1009],
      [1042, 1014],
      [1043, 1015],
      [1082, 1182],
      [1083, 1183],
      [1266, 1270],
      [1186, 1187],
      [1700, 1231],
      [2950, 2951],
      [869, 1041],
      [650, 651],
      [1560, 1561],
      [1562, 1563],
      [790, 791],
      [142, 143],
      [829, 1040],
      [600, 1017],
      [3904, 3905],
      [3926, 3927],
      [3906, 3907],
      [3912, 3913],
      [3908, 3909],
      [3910, 3911],
      [3614, 3643],
      [4072, 4073],
    ] as const
  ).map(([type, array]) => [type, array, asText] as const),
];

const converters = new Map<number, ToJson>(
  builtIn.flatMap(([type, array, toJson]) => [
    [type, toJson],
    [array, arrayOf(toJson)],
  ]),
);

// bigint and numeric, as the data API writes them: all digits, as numbers.
const exactConverters = new Map<number, ToJson>([
  ...converters,
  [20, asExact],
  [1016, arrayOf(asExact)],
  [1700, asExact],
  [1231, arrayOf(asExact)],
]);

const firstOwnType = 16_384;
const asTextArray = arrayOf(asText);

/** Facts of the catalog may be out of date for a moment, when a database was replaced by an older one. */
const asOwnArray: ToJson = (text) => (/^[[{]/.test(text) ? asTextArray(text) : asText(text));

/** Types of the database's own (enumerations, composites) whose form only its catalog knows. */
export const isOwnType = (type: number): boolean => type >= firstOwnType;

/**
 * How values of a type become JSON: numbers, booleans, JSON and arrays as such, time stamps in ISO 8601, everything
 * else as the server writes it. Numbers that lose digits in JavaScript (numeric, large bigint) are text.
 * @param ownArrays the array types of the database's own
 */
export const toJsonOf = (type: number, ownArrays: ReadonlySet<number>): ToJson =>
  converters.get(type) ?? (ownArrays.has(type) ? asOwnArray : asText);

/** As `toJsonOf`, but numeric and bigint are numbers whatever their length: for readers who get the text. */
export const toExactJsonOf = (type: number, isArray: boolean): ToJson =>
  exactConverters.get(type) ?? (isArray ? asOwnArray : asText);
