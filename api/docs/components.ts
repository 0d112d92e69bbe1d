type Json = Record<string, unknown>;

const isJson = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value);

const ownPrefix = '#/$defs/';
const sharedPrefix = '#/components/schemas/';

/** A copy of a value in which every object, from the leaves up, is replaced by what `change` makes of it. */
const mapped = (value: unknown, change: (object: Json) => unknown): unknown => {
  if (Array.isArray(value)) return value.map((item) => mapped(item, change));
  if (!isJson(value)) return value;
  return change(Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, mapped(inner, change)])));
};

const definitionsOf = (schema: Json): Json => (isJson(schema['$defs']) ? schema['$defs'] : {});

/** The schema with the named ones in their places, as an example of it is made. */
export const inlined = (schema: Json): Json => {
  const definitions = definitionsOf(schema);
  const { $defs: _definitions, ...rest } = schema;
  const change = (object: Json): unknown => {
    const { $ref, ...beside } = object;
    if (typeof $ref !== 'string' || !$ref.startsWith(ownPrefix)) return object;
    const named = definitions[$ref.slice(ownPrefix.length)];
    return isJson(named) ? { ...(mapped(named, change) as Json), ...beside } : object;
  };
  return mapped(rest, change) as Json;
};

const pointed = (object: Json): Json => {
  const { $ref } = object;
  return typeof $ref === 'string' && $ref.startsWith(ownPrefix)
    ? { ...object, $ref: sharedPrefix + $ref.slice(ownPrefix.length) }
    : object;
};

/**
 * Takes the named schemas out of all schemas of a document.
 * @returns the document without them, and the named ones by their names
 * @throws {Error} when two different schemas have one name
 */
export const hoisted = <Document extends Json>(document: Document): { document: Document; schemas: Json } => {
  const found = new Map<string, string>();
  const hoist = (object: Json): unknown => {
    for (const [name, definition] of Object.entries(definitionsOf(object))) {
      const text = JSON.stringify(definition);
      if ((found.get(name) ?? text) !== text) throw new Error(`two schemas of the API are called ${name}`);
      found.set(name, text);
    }
    const { $defs: _definitions, ...rest } = object;
    return pointed(rest);
  };
  const without = mapped(document, hoist) as Document;
  const names = [...found.keys()].toSorted();
  return {
    document: without,
    schemas: Object.fromEntries(names.map((name) => [name, JSON.parse(found.get(name) ?? '')])),
  };
};
