import test from 'ava';
import type { Endpoint } from '#api/endpoint.ts';
import { endpoints } from '#api/endpoints.ts';
import { needOf, pathValueOf } from '#api/docs/example-needs.ts';
import { openapiOf } from '#api/docs/openapi.ts';
import { opsToken, usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test);

interface Operation {
  readonly parameters: readonly { name: string; in: string; description?: string; schema: { enum?: unknown[] } }[];
  readonly requestBody?: { readonly content: { 'application/json': { readonly example?: unknown } } };
}

const { paths } = openapiOf(endpoints) as unknown as { paths: Record<string, Record<string, Operation>> };
const operationOf = ({ path, method }: Endpoint): Operation | undefined => paths[path]?.[method];
const routeOf = ({ path, method }: Endpoint): string => `${method} ${path}`;

test('of each value in a path the page says where it comes from', (t) => {
  const unexplained = endpoints.flatMap((endpoint) =>
    (operationOf(endpoint)?.parameters ?? [])
      .filter((one) => one.in === 'path' && one.description === undefined && one.schema.enum === undefined)
      .map(({ name }) => `${routeOf(endpoint)} ${name}`),
  );
  t.deepEqual(unexplained, []);
});

interface Reader {
  token: string;
  key: string;
  /** By the path that answered it. */
  readonly made: Map<string, Record<string, unknown>>;
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

/** The id of a thing in the answer that created or listed it. */
const idIn = (thing: Record<string, unknown>, name: string): unknown =>
  thing[name === 'ref' || name === 'type' ? name : 'id'] ?? thing[name];

const credentials = (endpoint: Endpoint, { token, key }: Reader): { token?: string; key?: string } => {
  const { kind } = endpoint.access;
  if (kind === 'everyone') return {};
  if (kind === 'key') return { key };
  return { token: kind === 'operator' ? opsToken : token };
};

/** The first thing of the list that the call at that path answers. */
const listed = async (reader: Reader, above: string, filled: string, name: string): Promise<unknown> => {
  const lister = endpoints.find((one) => one.method === 'get' && one.path === above);
  if (lister === undefined) return undefined;
  const { body } = await platform().client.call('GET', filled, credentials(lister, reader));
  const list = Object.values(isObject(body) ? body : {}).find(Array.isArray) as unknown[] | undefined;
  const first = list?.[0];
  return isObject(first) ? idIn(first, name) : first;
};

/** Follows the page: an example where it has one, else what the call above has answered or lists. */
const fill = async (reader: Reader, path: string): Promise<string> => {
  let filled = path;
  for (const [, name = ''] of path.matchAll(/\{(\w+)\}/g)) {
    const [above = ''] = path.split(`/{${name}}`, 1);
    const made = reader.made.get(name === 'ref' || name === 'project_id' ? '/projects' : above);
    const value =
      pathValueOf(path, name, endpoints).example ??
      (made && idIn(made, name)) ??
      (await listed(reader, above, filled.split(`/{${name}}`, 1)[0] ?? '', name));
    filled = filled.replace(`{${name}}`, String(value));
  }
  return filled;
};

const changing = new Set(['post', 'put', 'patch']);

/** In the order of the page, but that signing up comes first, as the page says, and signing out last. */
const places: Readonly<Record<string, number>> = { 'post /auth/signup': -1, 'post /auth/logout': 1 };
const orderOf = (endpoint: Endpoint): number => places[routeOf(endpoint)] ?? 0;
const inOrder = endpoints.toSorted((a, b) => orderOf(a) - orderOf(b));

/** Sends the example of a body and keeps what it answered for the calls after it. */
const tryOut = async (reader: Reader, endpoint: Endpoint): Promise<string | null> => {
  const example = operationOf(endpoint)?.requestBody?.content['application/json'].example;
  const path = await fill(reader, endpoint.path);
  const { status, body, text } = await platform().client.call(endpoint.method.toUpperCase(), path, {
    ...credentials(endpoint, reader),
    ...(example !== undefined && { body: example }),
  });
  if (status >= 300) return `${routeOf(endpoint)} as ${path}: ${status} ${text.slice(0, 300)}`;
  if (!isObject(body)) return null;
  if (endpoint.method === 'post') reader.made.set(endpoint.path, body);
  if (endpoint.access.kind === 'everyone' && typeof body['access_token'] === 'string')
    reader.token = body['access_token'];
  if (endpoint.path === '/projects') reader.key = String(body['api_key']);
  return null;
};

test('the examples of bodies work one after the other, but for those that say what they need', async (t) => {
  const reader: Reader = { token: '', key: '', made: new Map() };
  const failures: (string | null)[] = [];
  for (const endpoint of inOrder) {
    if (!changing.has(endpoint.method) || endpoint.body === undefined || needOf(endpoint) !== undefined) continue;
    failures.push(await tryOut(reader, endpoint));
  }
  t.true(failures.length > 50);
  t.deepEqual(
    failures.filter((failure) => failure !== null),
    [],
  );
});
