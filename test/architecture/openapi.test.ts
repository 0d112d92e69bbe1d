import test from 'ava';
import { hoisted } from '#api/docs/components.ts';
import { endpoints } from '#api/endpoints.ts';
import { openapiOf } from '#api/docs/openapi.ts';

type Json = Record<string, unknown>;

const document = JSON.parse(JSON.stringify(openapiOf(endpoints))) as Json & {
  paths: Record<string, Record<string, Operation>>;
};

interface Parameter {
  readonly $ref?: string;
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly schema: Json;
}

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly tags: string[];
  readonly security: Json[];
  readonly parameters: Parameter[];
  readonly requestBody?: { readonly content: Record<string, { schema: Json }> };
  readonly responses: Record<
    string,
    { $ref?: string; description?: string; content?: Record<string, { schema: Json }> }
  >;
}

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const resolve = (reference: string): unknown =>
  reference
    .replace(/^#\//, '')
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce<unknown>((value, part) => (isObject(value) ? value[part] : undefined), document);

/** Every object in the document with the path to it. */
const objectsIn = (value: unknown, where = '#'): { where: string; value: Json }[] => {
  if (Array.isArray(value)) return value.flatMap((item, i) => objectsIn(item, `${where}/${i}`));
  if (!isObject(value)) return [];
  return [{ where, value }, ...Object.entries(value).flatMap(([name, inner]) => objectsIn(inner, `${where}/${name}`))];
};

const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation, route: `${method} ${path}` })),
);

test('the document says what it is', (t) => {
  t.regex(String(document['openapi']), /^3\.1\.\d+$/);
  t.like(document['info'], { title: 'plinth', license: { identifier: 'Apache-2.0' } });
  t.deepEqual(
    Object.keys(document).toSorted((a, b) => a.localeCompare(b)),
    ['components', 'info', 'openapi', 'paths', 'servers', 'tags'],
  );
});

test('every endpoint is an operation, and nothing else is', (t) => {
  const routes = endpoints.map(({ method, path }) => `${method} ${path}`);
  t.deepEqual(operations.map(({ route }) => route).toSorted(), routes.toSorted());
});

test('every reference leads somewhere', (t) => {
  const references = objectsIn(document).filter(({ value }) => typeof value['$ref'] === 'string');
  t.true(references.length > 0);
  for (const { where, value } of references)
    t.truthy(resolve(String(value['$ref'])), `${where} → ${String(value['$ref'])}`);
});

test('what several operations of the dashboard and the command line answer has a name', (t) => {
  const seen = new Map<string, string>();
  const unnamed: string[] = [];
  for (const { path, route, operation } of operations) {
    if (!/^\/(?:projects|team|auth)(?:\/|$)/.test(path)) continue;
    for (const { where, value } of objectsIn(operation.responses, route)) {
      if (!isObject(value['properties']) || Object.keys(value['properties']).length < 6) continue;
      const text = JSON.stringify(value);
      const before = seen.get(text);
      if (before !== undefined && before !== route) unnamed.push(`${where} is as in ${before}: see namedObject`);
      seen.set(text, route);
    }
  }
  t.deepEqual(unnamed, []);
  const names = Object.keys(resolve('#/components/schemas') as Json);
  for (const name of ['Project', 'Job', 'Column', 'Function', 'Error']) t.true(names.includes(name), name);
  for (const name of names) t.regex(name, /^[A-Z][A-Za-z]+$/);
});

test('two schemas with one name are refused, and one that is used twice is written once', (t) => {
  const one = { $ref: '#/$defs/Guest', $defs: { Guest: { type: 'object' } } };
  const { document: without, schemas } = hoisted({ a: one, b: [{ items: one }] });
  t.deepEqual(schemas, { Guest: { type: 'object' } });
  t.deepEqual(without as Json, {
    a: { $ref: '#/components/schemas/Guest' },
    b: [{ items: { $ref: '#/components/schemas/Guest' } }],
  });
  const other = { $ref: '#/$defs/Guest', $defs: { Guest: { type: 'string' } } };
  t.throws(() => hoisted({ a: one, b: other }), { message: 'two schemas of the API are called Guest' });
});

test('operation ids are unique and can be names in a program', (t) => {
  const ids = operations.map(({ operation }) => operation.operationId);
  t.is(new Set(ids).size, ids.length);
  for (const id of ids) t.regex(id, /^[a-z][a-z\d_]*$/);
});

test('every operation has a summary, a known tag, known security and an error answer', (t) => {
  const tags = new Set((document['tags'] as { name: string }[]).map(({ name }) => name));
  const schemes = new Set(Object.keys(resolve('#/components/securitySchemes') as Json));
  for (const { route, operation } of operations) {
    t.truthy(operation.summary, route);
    t.true(operation.tags.every((tag) => tags.has(tag)) && operation.tags.length === 1, route);
    t.true(
      operation.security.flatMap(Object.keys).every((scheme) => schemes.has(scheme)),
      route,
    );
    t.is(operation.responses['default']?.$ref, '#/components/responses/Error', route);
  }
});

test('every answer has a description, and one with 204 has no content', (t) => {
  for (const { route, operation } of operations) {
    for (const [status, response] of Object.entries(operation.responses)) {
      t.true(/^[1-5]\d\d$|^default$/.test(status), route);
      t.truthy(response.$ref ?? response.description, `${route} ${status}`);
      if (status === '204') t.is(response.content, undefined, route);
    }
  }
});

test('the parameters of a path are the ones that it names, each once and required', (t) => {
  for (const { path, route, operation } of operations) {
    const inPath = operation.parameters.filter((parameter) => parameter.in === 'path');
    const named = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
    t.deepEqual(
      inPath.map(({ name }) => name),
      named as string[],
      route,
    );
    t.true(
      inPath.every(({ required }) => required),
      route,
    );
    const all = operation.parameters.map((parameter) => parameter.$ref ?? `${parameter.in} ${parameter.name}`);
    t.is(new Set(all).size, all.length, route);
  }
});

test('what asks for an access, a job or a body says so', (t) => {
  for (const endpoint of endpoints) {
    const operation = document.paths[endpoint.path]?.[endpoint.method];
    const refs = operation?.parameters.map((parameter) => parameter.$ref);
    t.is(operation?.security.length === 0, endpoint.access.kind === 'everyone');
    t.is(refs?.includes('#/components/parameters/Prefer'), endpoint.work.kind === 'job');
    t.is('202' in (operation?.responses ?? {}), endpoint.work.kind === 'job' || endpoint.status === 202);
    t.is(operation?.requestBody !== undefined, endpoint.body !== undefined);
  }
});

const types = new Set<unknown>(['string', 'number', 'integer', 'boolean', 'object', 'array', 'null']);

test('schemas are JSON Schema as OpenAPI 3.1 takes it', (t) => {
  const found = objectsIn(document).filter(({ where }) => where.endsWith('/schema'));
  t.true(found.length > 50);
  for (const { where, value } of found.flatMap(({ where: at, value: schema }) => objectsIn(schema, at))) {
    if (where.endsWith('/properties')) continue;
    for (const type of [value['type']].flat()) t.true(type === undefined || types.has(type), where);
    t.false('nullable' in value, where);
    t.false('$schema' in value, where);
    if (Array.isArray(value['required']) && isObject(value['properties'])) {
      for (const name of value['required']) t.true(name in value['properties'], `${where} requires ${name}`);
    }
  }
});

test('no field is called a secret of the platform', (t) => {
  const text = JSON.stringify(document);
  for (const name of ['data_key', 'password_sealed', 'env_sealed', 'invite_hash', 'compiled'])
    t.false(text.includes(`"${name}"`), name);
});
