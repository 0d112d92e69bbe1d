import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import Koa from 'koa';
import test from 'ava';
import type { BaseCall } from '#api/call.ts';
import type { RawRequest } from '#api/raw-endpoint.ts';
import { graphqlEndpoints } from '#api/routes/graphql.ts';
import type { DataSchema, Table } from '#domain/data-api/schema/schema.ts';

const log: Table = {
  name: 'log',
  sql: 'public.log',
  kind: 'table',
  comment: null,
  rowSecurity: false,
  hasPlainColumns: true,
  columns: new Map([
    [
      'line',
      {
        name: 'line',
        type: 'text',
        baseType: 'text',
        nullable: true,
        default: null,
        generated: false,
        comment: null,
        enumValues: null,
      },
    ],
  ]),
  primaryKey: [],
  uniques: [],
  relationships: [],
  insertable: true,
  updatable: true,
};

const schema: DataSchema = {
  name: 'public',
  version: '1',
  tables: new Map([['log', log]]),
  routines: new Map(),
  baseTypes: new Set(),
  bytes: 0,
};

const request = (query: string): RawRequest => ({
  method: 'POST',
  path: '/api/graphql',
  queryText: '',
  params: {},
  header: (name) => (name === 'content-type' ? 'application/json' : ''),
  headersJson: () => '{}',
  body: () => Promise.resolve(Buffer.from(JSON.stringify({ query }))),
  signal: new AbortController().signal,
  context: new Koa().createContext(
    new IncomingMessage(new Socket()),
    new ServerResponse(new IncomingMessage(new Socket())),
  ),
});

const rows = () => Promise.resolve([['{"affected_rows":1}']]);

/** Answers a mutation while what tells of changes does as it is told here. */
const answered = async (markDirty: (projectId: string) => Promise<void>) => {
  const deps = { data: { rows }, schemas: { get: () => Promise.resolve(schema) }, events: { markDirty } };
  const caller = { projectId: 'project', role: 'service', claims: '{}' };
  const [endpoint] = graphqlEndpoints;
  if (endpoint?.work.kind !== 'raw') throw new Error('the endpoint is of another kind');
  const call = { deps, caller, setHeader: () => undefined } as unknown as BaseCall;
  const mutation = request('mutation { insert_log(objects: [{line: "x"}]) { affected_rows } }');
  return endpoint.work.handle(mutation, call);
};

const done = '{"data":{"insert_log":{"affected_rows":1}}}';

test('a change is answered without waiting for those who are told of it', async (t) => {
  const reported: string[] = [];
  const { body } = await answered((projectId) => {
    reported.push(projectId);
    // Redis does not answer.
    return new Promise(() => undefined);
  });
  t.is(body, done);
  t.deepEqual(reported, ['project']);
});

test('a change that nobody could be told of is answered as made', async (t) => {
  const { body } = await answered(() => Promise.reject(new Error('no Redis')));
  t.is(body, done);
});
