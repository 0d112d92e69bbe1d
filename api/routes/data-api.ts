import { z } from 'zod';
import { inProject, withKey } from '#api/access.ts';
import { memberCall } from '#api/auth/by-member.ts';
import type { BaseCall, DataCall } from '#api/call.ts';
import { type Endpoint, type Method, RawReply } from '#api/endpoint.ts';
import { type RawRequest, rawEndpoint } from '#api/raw-endpoint.ts';
import type { Dialect, RestAnswer, Target } from '#domain/data-api/rest/request.ts';
import { type RestCall, type RestDeps, answerRest, answerRestBatch } from '#domain/data-api/rest/rest.ts';

/** One address under which the REST API of a project's tables is served, and how it differs from the others. */
interface Mount {
  readonly root: string;
  readonly bareEquality: boolean;
  readonly returnsCreated: boolean;
  /** Rows have addresses of their own: `{table}/{id}`. */
  readonly rows: boolean;
  /** For members of the project, in place of keys and tokens of its users. */
  readonly byMembers?: true;
}

const ours = { bareEquality: false, returnsCreated: true, rows: false };
// The surface for PostgREST's clients: answers as PostgREST's own, to the last default.
const alias = { bareEquality: false, returnsCreated: false, rows: false };

const mounts: readonly Mount[] = [
  { root: '/p/{ref}/v1/rest', ...ours },
  { root: '/v1/rest', ...ours },
  { root: '/p/{ref}/rest/v1', ...alias },
  { root: '/rest/v1', ...alias },
  { root: '/api/data', bareEquality: true, returnsCreated: true, rows: true },
  { root: '/projects/{project_id}/rest/v1', ...alias, byMembers: true },
];

type Calls = BaseCall & DataCall;

const depsOf = ({ deps }: Calls): RestDeps => ({
  data: deps.data,
  schemas: deps.schemas,
  threads: deps.json,
  changed: (projectId) => {
    // The change is made; what is not fetched soon is swept later.
    deps.events.markDirty(projectId).catch(() => undefined);
  },
});

const dialectOf = ({ root, bareEquality, returnsCreated }: Mount, params: RawRequest['params']): Dialect => ({
  root: root.replace(/\{(\w+)\}/, (_, name: string) => params[name] ?? ''),
  bareEquality,
  returnsCreated,
});

const hasBody = (method: string): boolean => method === 'POST' || method === 'PUT' || method === 'PATCH';

const noBody = Buffer.alloc(0);

const bodyOf = (request: RawRequest): Promise<Buffer> | Buffer => (hasBody(request.method) ? request.body() : noBody);

interface DataRequest {
  readonly target: Target;
  readonly request: RawRequest;
  readonly body: Buffer;
}

const callOf = (mount: Mount, { target, request, body }: DataRequest, call: Calls): RestCall => ({
  caller: call.caller,
  signal: request.signal,
  headersJson: request.headersJson,
  dialect: dialectOf(mount, request.params),
  exposed: call.project.exposed_schemas,
  request: {
    method: request.method,
    path: request.path,
    target,
    queryText: request.queryText,
    header: request.header,
    body,
  },
});

const reply = ({ status, headers, type, body }: RestAnswer, { setHeader }: BaseCall): RawReply => {
  for (const [name, value] of Object.entries(headers)) setHeader(name, value);
  return new RawReply(status === 204 ? null : body, type, status);
};

type TargetOf = (params: RawRequest['params']) => Target;

const targets = {
  root: () => ({ kind: 'root' }),
  table: ({ table = '' }) => ({ kind: 'table', table }),
  row: ({ table = '', id = '' }) => ({ kind: 'row', table, id }),
  function: ({ function: name = '' }) => ({ kind: 'function', name }),
} as const satisfies Record<string, TargetOf>;

interface Route {
  readonly path: string;
  readonly target: TargetOf;
  readonly methods: Readonly<Partial<Record<Method, string>>>;
}

const routes: readonly Route[] = [
  { path: '/', target: targets.root, methods: { get: 'The OpenAPI document of the tables and functions' } },
  {
    path: '/{table}',
    target: targets.table,
    methods: {
      get: 'Rows of a table, in PostgREST’s dialect',
      post: 'Create rows, or merge them into those that are there',
      patch: 'Change the rows that the filters choose',
      put: 'Create or replace the row of that primary key',
      delete: 'Delete the rows that the filters choose',
    },
  },
  {
    path: '/rpc/{function}',
    target: targets.function,
    methods: { get: 'Call a function that changes nothing', post: 'Call a function' },
  },
];

const rowRoute: Route = {
  path: '/{table}/{id}',
  target: targets.row,
  methods: { get: 'One row by its primary key', patch: 'Change one row', delete: 'Delete one row' },
};

/** For the API page; filters are named after the columns. */
const reading = z.object({
  select: z.string().optional().describe('Columns and related rows: `title,director:people(name)`.'),
  order: z.string().optional().describe('`year.desc.nullslast,title`'),
  limit: z.string().optional().describe('At most, and without it, 1000.'),
  offset: z.string().optional(),
});

type Handle = (request: RawRequest, call: Calls) => Promise<RawReply>;
type Definition = Pick<Parameters<typeof rawEndpoint>[0], 'method' | 'path' | 'summary' | 'query'>;

const keyAccess = withKey('secret', 'publishable', 'user');

const mounted = ({ byMembers }: Mount, definition: Definition, handle: Handle): Endpoint => {
  const common = { ...definition, area: 'data', bodyLimit: 'json' } as const;
  if (byMembers !== true) return rawEndpoint({ ...common, access: keyAccess, rate: 'data', handle });
  return rawEndpoint({
    ...common,
    access: inProject(definition.method === 'get' ? 'viewer' : 'developer'),
    rate: 'dashboard',
    handle: async (request, call) => handle(request, await memberCall(call)),
  });
};

const endpointsOf = (mount: Mount, { path, target, methods }: Route): Endpoint[] =>
  (Object.entries(methods) as [Method, string][]).map(([method, summary]) => {
    const query = method === 'get' && target === targets.table ? { query: reading } : {};
    return mounted(mount, { method, path: `${mount.root}${path}`, summary, ...query }, async (request, call) => {
      const dataRequest = { target: target(request.params), request, body: await bodyOf(request) };
      return reply(await answerRest(depsOf(call), callOf(mount, dataRequest, call)), call);
    });
  });

const batchOf = (mount: Mount): Endpoint => {
  const summary = 'Several requests in one transaction: all of them, or none';
  return mounted(mount, { method: 'post', path: `${mount.root}/rpc/$batch`, summary }, async (request, call) => {
    const target = { kind: 'function', name: '$batch' } as const;
    const dataRequest = callOf(mount, { target, request, body: await request.body() }, call);
    return reply(await answerRestBatch(depsOf(call), dataRequest, mount.rows), call);
  });
};

/**
 * The REST API of projects' tables (interface, "Auto data API"; contract, section 5), once for each of its addresses.
 */
export const dataEndpoints: readonly Endpoint[] = mounts.flatMap((mount) => [
  batchOf(mount),
  ...routes.flatMap((route) => endpointsOf(mount, route)),
  ...(mount.rows ? endpointsOf(mount, rowRoute) : []),
]);
