import { type BenchUser, projectBody, signUp } from '../client.ts';
import type { Bench } from '../harness.ts';
import type { Server } from '../servers.ts';
import { requiredIn } from '../settings.ts';

/** As in production (one JSON line a request, here to a file), but never refusing. */
export const apiSpec = (name: string, env: Readonly<Record<string, string>> = {}) => ({
  name,
  file: 'api/server.ts',
  env: { PLINTH_RATE_LIMITS: 'off', PLINTH_LOG_FORMAT: 'json', ...env },
});

export interface DataProject {
  readonly id: string;
  readonly ref: string;
  readonly dbName: string;
  readonly key: string;
  readonly publishableKey: string;
}

/** @throws {Error} with the answer when it is no success */
const post = async (url: string, headers: Readonly<Record<string, string>>, body: unknown): Promise<unknown> => {
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`POST ${url} answered ${response.status}: ${text}`);
  return JSON.parse(text);
};

export const createDataProject = async (url: string, user: BenchUser): Promise<DataProject> => {
  const made = (await post(`${url}/projects`, user.headers, projectBody())) as Record<
    'id' | 'ref' | 'db_name' | 'api_key' | 'publishable_key',
    string
  >;
  return { id: made.id, ref: made.ref, dbName: made.db_name, key: made.api_key, publishableKey: made.publishable_key };
};

/** Runs statements one by one, as the project's owner. */
export const runSql = async (
  url: string,
  user: BenchUser,
  project: DataProject,
  ...statements: readonly string[]
): Promise<void> => {
  for (const sql of statements) await post(`${url}/projects/${project.id}/db/query`, user.headers, { sql });
};

/** The address of a project's database as the server's administrator, for floors and for watching. */
export const databaseUrlOf = (bench: Bench, { dbName }: DataProject): string => {
  const url = new URL(requiredIn(bench.env, 'DATABASE_URL'));
  url.pathname = `/${dbName}`;
  return url.toString();
};

export const rowCount = 100_000;
export const categories = 100;

/** 100,000 rows in 100 categories; with `policies`, end users may read them. */
const itemsTable = (policies: boolean): readonly string[] => [
  `create table items (
    id bigint generated always as identity primary key, category int not null, name text not null, price numeric(10, 2) not null,
    tags text[] not null default '{}', attributes jsonb not null default '{}', created_at timestamptz not null default now())`,
  `insert into items (category, name, price, tags, attributes, created_at)
   select n % ${categories}, 'item number ' || n, n / 100.0, array['a', 'tag' || n % 7], jsonb_build_object('size', n % 9, 'on', true),
     timestamptz '2026-01-01' + n * interval '1 minute' from generate_series(1, ${rowCount}) n`,
  'create index items_category_created_at on items (category, created_at desc)',
  ...(policies
    ? [
        'alter table items enable row level security',
        `create policy readers on items for select to anon using (current_setting('request.jwt.claims', true)::json ->> 'role' = 'anon')`,
      ]
    : []),
  'analyze items',
];

export interface Scene {
  readonly api: Server;
  readonly user: BenchUser;
  readonly project: DataProject;
}

/** An API of its own with one project that has the table. */
export const startScene = async (bench: Bench, name: string, { policies = false } = {}): Promise<Scene> => {
  const api = await bench.servers.start(apiSpec(name));
  const user = await signUp(api.url);
  const project = await createDataProject(api.url, user);
  await runSql(api.url, user, project, ...itemsTable(policies));
  return { api, user, project };
};
