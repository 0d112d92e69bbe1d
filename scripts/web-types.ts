/*
 * Makes web/{dashboard,ops}/client/types.ts and cli/types.ts: the requests and answers of the operations of an OpenAPI document, as TypeScript.
 * The generators in the registry need the compiler's programming interface of TypeScript 5; the project has TypeScript 7,
 * and JSON Schema as zod writes it is few kinds of schema.
 */

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly items?: Schema;
  readonly prefixItems?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Schema;
}

interface Content {
  readonly content?: Readonly<Record<string, { readonly schema?: Schema }>>;
}

interface Operation {
  readonly summary?: string;
  readonly tags?: readonly string[];
  /** The least role that may call it. */
  readonly 'x-role'?: string;
  readonly parameters?: readonly {
    readonly in: string;
    readonly name: string;
    readonly required?: boolean;
    readonly schema?: Schema;
  }[];
  readonly requestBody?: Content;
  readonly responses: Readonly<Record<string, Content>>;
}

const nameOf = (ref: string): string => ref.slice(ref.lastIndexOf('/') + 1);

const union = (types: readonly string[]): string => [...new Set(types)].join(' | ') || 'never';

const objectType = ({ properties = {}, required = [], additionalProperties }: Schema): string => {
  const fields = Object.entries(properties).map(
    ([name, schema]) => `${JSON.stringify(name)}${required.includes(name) ? '' : '?'}: ${typeOf(schema)};`,
  );
  const rest = additionalProperties === true || additionalProperties === undefined ? {} : additionalProperties;
  const isOpen = rest !== false && (fields.length === 0 || typeof additionalProperties === 'object');
  if (!isOpen) return fields.length === 0 ? 'Record<string, never>' : `{ ${fields.join(' ')} }`;
  return fields.length === 0 ? `Record<string, ${typeOf(rest)}>` : `{ ${fields.join(' ')} [name: string]: unknown }`;
};

const primitives: Readonly<Record<string, string>> = {
  string: 'string',
  integer: 'number',
  number: 'number',
  boolean: 'boolean',
  null: 'null',
};

const single = (type: string, schema: Schema): string => {
  if (type === 'array') return `readonly (${schema.items === undefined ? 'unknown' : typeOf(schema.items)})[]`;
  if (type === 'object') return objectType(schema);
  return primitives[type] ?? 'unknown';
};

function typeOf(schema: Schema): string {
  if (schema.$ref !== undefined) return `Schemas[${JSON.stringify(nameOf(schema.$ref))}]`;
  if ('const' in schema) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return union(schema.enum.map((value) => JSON.stringify(value)));
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) return union(choices.map(typeOf));
  if (schema.allOf !== undefined) return schema.allOf.map((part) => `(${typeOf(part)})`).join(' & ');
  const types = [schema.type ?? []].flat();
  return types.length === 0 ? 'unknown' : union(types.map((type) => single(type, schema)));
}

const bodyType = ({ content = {} }: Content): string => {
  const { schema } = content['application/json'] ?? {};
  return schema === undefined ? 'undefined' : typeOf(schema);
};

const answerType = (responses: Operation['responses']): string =>
  union(
    Object.entries(responses)
      .filter(([status]) => status.startsWith('2'))
      .map(([, response]) => bodyType(response)),
  );

const queryType = ({ parameters = [] }: Operation): string => {
  const fields = parameters
    .filter((parameter) => parameter.in === 'query')
    .map(({ name, required, schema = {} }) => `${JSON.stringify(name)}${required ? '' : '?'}: ${typeOf(schema)};`);
  return fields.length === 0 ? 'undefined' : `{ ${fields.join(' ')} }`;
};

const operationType = (operation: Operation): string =>
  `{ query: ${queryType(operation)}; body: ${bodyType(operation.requestBody ?? {})}; answer: ${answerType(operation.responses)} }`;

const methods = ['get', 'post', 'put', 'patch', 'delete'] as const;

/** The parts of an OpenAPI document that types follow from. */
export interface ApiDocument {
  readonly components?: { readonly schemas?: Readonly<Record<string, Schema>> };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

/** The dashboard may call these: a cookie opens management endpoints only. */
export const managed = /^\/(?:projects|team|auth|dashboard)(?:\/|$)/;

const operationsOf = (document: ApiDocument, paths: RegExp): string[] =>
  Object.entries(document.paths)
    .filter(([at]) => paths.test(at))
    .flatMap(([at, operations]) =>
      methods.flatMap((method) => {
        const operation = operations[method];
        const name = JSON.stringify(`${method.toUpperCase()} ${at}`);
        return operation === undefined ? [] : [`  ${name}: ${operationType(operation)};`];
      }),
    );

/** The names that a text of types refers to. */
const mentioned = (text: string): string[] => [...text.matchAll(/Schemas\["(\w+)"\]/g)].map(([, name = '']) => name);

/** The named schemas that the types need, those that they need among them. */
const neededSchemas = (document: ApiDocument, operations: string): string[] => {
  const known = document.components?.schemas ?? {};
  const types = new Map<string, string>();
  const open = mentioned(operations);
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    const schema = known[name];
    if (schema === undefined || types.has(name)) continue;
    types.set(name, typeOf(schema));
    open.push(...mentioned(types.get(name) ?? ''));
  }
  return [...types]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, type]) => `  ${JSON.stringify(name)}: ${type};`);
};

interface TypeOptions {
  /** The addresses whose operations are wanted. */
  readonly paths: RegExp;
  /** Whether other files name schemas, too. */
  readonly exportsSchemas: boolean;
}

/** The text of the file with the types. */
export const webTypes = (document: ApiDocument, { paths, exportsSchemas }: TypeOptions): string => {
  const operations = operationsOf(document, paths).join('\n');
  const schemas = neededSchemas(document, operations).join('\n');
  return [
    '// Made from docs/openapi.json by `npm run openapi`.',
    ...(schemas === ''
      ? []
      : [
          `/** The named schemas of the document. */\n${exportsSchemas ? 'export ' : ''}interface Schemas {\n${schemas}\n}\n`,
        ]),
    '/** The request and the answer of each operation. */',
    `export interface Operations {\n${operations}\n}\n`,
  ].join('\n');
};

/** The text of the file that says which role may do what: for the page of a team. */
export const webRoles = (document: ApiDocument): string => {
  const lines = Object.entries(document.paths).flatMap(([at, operations]) =>
    methods.flatMap((method) => {
      const { summary, tags = [], 'x-role': role } = operations[method] ?? {};
      if (!managed.test(at) || role === undefined || summary === undefined) return [];
      return [`  ${JSON.stringify([tags[0] ?? 'Other', role, summary])},`];
    }),
  );
  return [
    '// Made from docs/openapi.json by `npm run openapi`.',
    '/** The operations for members: the area, the least role that may call it, and a summary. */',
    `export const abilities: readonly (readonly [area: string, role: string, summary: string])[] = [\n${lines.join('\n')}\n];\n`,
  ].join('\n');
};
