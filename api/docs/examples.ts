import type { Endpoint } from '#api/endpoint.ts';

type Json = Record<string, unknown>;

/** Areas as people write them; the rest needs a capital letter only. */
const areaNames: Readonly<Record<string, string>> = {
  ai: 'AI',
  'api-keys': 'API keys',
  data: 'Data API',
  email: 'E-mail',
  auth: 'Sign-in of end users',
  users: 'End users',
  storage: 'Files',
  oauth: 'OpenID provider',
};

/** The name of an area for readers: `api-keys` → `API keys`. */
export const areaName = (area: string): string =>
  areaNames[area] ?? (area.charAt(0).toUpperCase() + area.slice(1)).replaceAll('-', ' ');

/** Where a value made from the schema would be refused, or would say nothing. */
const written: Readonly<Record<string, Json>> = {
  'post /auth/signup': { email: 'ada@example.com', password: 'correct horse battery', full_name: 'Ada Lovelace' },
  'post /auth/login': { email: 'ada@example.com', password: 'correct horse battery' },
  'post /auth/forgot': { email: 'ada@example.com' },
  'post /auth/factors': { password: 'correct horse battery' },
  'patch /auth/me': { full_name: 'Ada King' },
  'post /auth/tokens': { name: 'Build server', scopes: ['read', 'write'] },
  'post /auth/device': { client_name: 'plinth on my laptop' },
  'post /dashboard/session': { email: 'ada@example.com', password: 'correct horse battery' },
  'post /team/orgs': { org_name: 'Analytical Engines' },
  'patch /team/orgs/current': { org_name: 'Difference Engines' },
  'post /team/invite': { email: 'grace@example.com', role: 'developer' },
  'post /projects': { name: 'My first project' },
  'patch /projects/{project_id}': { name: 'My renamed project' },
  'post /projects/{project_id}/api-keys': { name: 'Website', kind: 'publishable' },
  'put /projects/{project_id}/auth/providers/{provider}': { client_id: 'your-client-id', client_secret: 'its-secret' },
  'post /projects/{project_id}/oauth/clients': {
    name: 'My website',
    redirect_uris: ['https://app.example.com/callback'],
  },
  'post /projects/{project_id}/users/tokens': { sub: 'user-1' },
  'post /projects/{project_id}/users': { email: 'mary@example.com', password: 'correct horse battery' },
  'post /projects/{project_id}/users/invite': { email: 'edith@example.com' },
  'post /projects/{project_id}/users/{uid}/ban': { until: '2099-01-01T00:00:00.000Z' },
  'post /p/{ref}/auth/v1/admin/users': { email: 'alan@example.com', password: 'correct horse battery' },
  'post /p/{ref}/auth/v1/admin/generate_link': { type: 'magiclink', email: 'alan@example.com' },
  'put /p/{ref}/auth/v1/admin/users/{uid}': { user_metadata: { name: 'Alan' } },
  'post /p/{ref}/auth/v1/signup': {
    email: 'grace@example.com',
    password: 'correct horse battery',
    data: { name: 'Grace' },
  },
  'post /projects/{project_id}/db/tables': {
    name: 'guests',
    columns: [
      { name: 'id', type: 'serial', primary_key: true },
      { name: 'name', type: 'text' },
    ],
  },
  'post /projects/{project_id}/db/tables/{table}/columns': { name: 'age', type: 'integer' },
  'patch /projects/{project_id}/db/tables/{table}': { row_level_security: { enabled: true } },
  'patch /projects/{project_id}/db/tables/{table}/columns/{column}': { comment: 'In years.' },
  'post /projects/{project_id}/db/tables/{table}/constraints': {
    kind: 'check',
    name: 'age_is_positive',
    expression: 'age > 0',
  },
  'post /projects/{project_id}/db/tables/{table}/indexes': { name: 'guests_by_name', columns: [{ column: 'name' }] },
  'post /projects/{project_id}/db/tables/{table}/policies': {
    name: 'everyone reads',
    command: 'select',
    roles: ['anon'],
    using: 'true',
  },
  'patch /projects/{project_id}/db/tables/{table}/policies/{policy}': { using: 'name is not null' },
  'post /projects/{project_id}/db/tables/{table}/changes': { changes: [{ kind: 'insert', values: { name: 'Grace' } }] },
  'post /projects/{project_id}/db/enums': { name: 'mood', values: ['sad', 'happy'] },
  'patch /projects/{project_id}/db/enums/{enum}': { add: { value: 'glad' } },
  'post /projects/{project_id}/snippets': { name: 'All guests', sql: 'select * from guests' },
  'put /projects/{project_id}/snippets/{snippet_id}': {
    name: 'All guests',
    sql: 'select * from guests order by name',
    version: 1,
  },
  'post /projects/{project_id}/db/migrations': {
    migrations: [{ version: '001', name: 'rooms', sql: 'create table rooms (number integer primary key)' }],
  },
  'post /projects/{project_id}/branches': { name: 'PR 12' },
  'post /projects/{project_id}/db/shadow': {
    migrations: [{ name: '001_rooms', sql: 'create table rooms (number integer primary key)' }],
  },
  'post /projects/{project_id}/ai/providers': { provider: 'openai', api_key: 'sk-your-key' },
  'post /projects/{project_id}/ai/schema/apply': {
    sql: 'create table seats (number integer primary key)',
  },
  'post /projects/{project_id}/ai/rls/apply': { sql: 'alter table guests enable row level security' },
  'post /projects/{project_id}/ai/vectors/collections': { name: 'notes', dimensions: 1536 },
  'patch /projects/{project_id}/functions/{id}': {
    code: 'export const handler = (payload) => ({ greeting: `Good day, ${payload.name}` });',
  },
  'patch /projects/{project_id}/cron/{cid}': { schedule: '45 2 * * *' },
  'put /projects/{project_id}/integrations/webhooks/{webhook_id}': { name: 'Guests' },
  'post /projects/{project_id}/integrations/webhooks/{webhook_id}/replay': { since: '2026-01-01T00:00:00.000Z' },
  'put /projects/{project_id}/email/smtp': { host: 'smtp.example.com', port: 587, from_email: 'ada@example.com' },
  'put /projects/{project_id}/email/templates/{type}': {
    subject: 'Welcome to {{project_name}}',
    html_body: '<p>Good to have you here.</p>',
    enabled: true,
  },
  'post /projects/{project_id}/functions': {
    name: 'Greet',
    language: 'javascript',
    code: 'export const handler = (payload) => ({ greeting: `Hello, ${payload.name}` });',
  },
  'post /projects/{project_id}/functions/{function_id}/invoke': { payload: { name: 'Ada' } },
  'post /projects/{project_id}/functions/{function_id}/drafts': {
    code: 'export const handler = (payload) => ({ greeting: `Good morning, ${payload.name}` });',
    payload: '{"name":"Ada"}',
  },
  'post /projects/{project_id}/db/query': { sql: 'select 1 as one' },
  'post /projects/{project_id}/db/script': { sql: 'select 1 as one; select 2 as two;' },
  'post /projects/{project_id}/cron': {
    name: 'Nightly',
    schedule: '30 2 * * *',
    timezone: 'Europe/Berlin',
    target: { type: 'sql', sql: 'select 1' },
  },
  'post /projects/{project_id}/integrations/webhooks': {
    url: 'https://example.com/hook',
    events: ['table.guests.INSERT'],
  },
  'post /projects/{project_id}/integrations/events': { name: 'order.paid', data: { order: 7 } },
  'post /api/graphql': { query: '{ __typename }' },
  'post /projects/{project_id}/flags': {
    key: 'new-checkout',
    name: 'New checkout',
    flag_type: 'boolean',
    value: true,
  },
  'post /projects/{project_id}/segments': {
    key: 'testers',
    name: 'Testers',
    conditions: [{ attribute: 'email', operator: 'ends_with', values: ['@example.com'] }],
  },
  'patch /projects/{project_id}/segments/{key}': { name: 'Our testers' },
  'post /projects/{project_id}/segments/{key}/evaluate': { context: { email: 'ada@example.com' } },
  'post /projects/{project_id}/auth/settings/captcha/test': {
    captcha: { provider: 'turnstile', secret: 'its-secret' },
  },
  'post /projects/{project_id}/auth/settings/breached-passwords/test': {
    url: 'https://api.pwnedpasswords.com/range/',
  },
  'post /p/{ref}/storage/v1/bucket': { name: 'pictures', public: true },
  'post /storage/v1/bucket': { name: 'documents' },
  'post /projects/{project_id}/storage/v1/folder/check': { bucket: 'pictures', folder: 'ada', to_folder: 'lovelace' },
  'post /projects/{project_id}/storage/v1/folder/move': { bucket: 'pictures', folder: 'ada', to_folder: 'lovelace' },
  'post /projects/{project_id}/storage/v1/folder/copy': { bucket: 'pictures', folder: 'ada', to_folder: 'lovelace' },
  'post /ops/api/dead/redrive': { all: true },
  'post /projects/{project_id}/email/mails/resend': { filter: { status: 'failed' }, dry_run: true },
  'post /projects/{project_id}/jobs/retry': { filter: { status: 'dead' }, dry_run: true },
  'post /projects/{project_id}/jobs/cancel': { filter: { status: 'queued' }, dry_run: true },
  'post /ops/api/jobs/retry': { filter: { status: 'dead' }, dry_run: true },
  'post /ops/api/jobs/cancel': { filter: { status: 'queued' }, dry_run: true },
};

const row = { name: 'Ada' };

/** Bodies of endpoints that take any JSON, by the end of their paths. */
const writtenByEnd: readonly (readonly [RegExp, Json | readonly Json[]])[] = [
  [/^(?:post|patch) .*\/\{table\}(?:\/\{id\})?$/, row],
  [/^put .*\/\{table\}$/, { id: 1, ...row }],
  [/^(?:post|put|patch|delete) .*\/functions\/(?:v1\/)?\{slug\}(?:\/\{path\})?$/, row],
  [/^post .*\/ofrep\/v1\/evaluate\/flags/, { context: { targetingKey: 'ada' } }],
  [/^post \/p\/\{ref\}\/graphql/, { query: '{ __typename }' }],
];

const writtenOf = (route: string): unknown =>
  written[route] ?? writtenByEnd.find(([pattern]) => pattern.test(route))?.[1];

interface Schema {
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly minimum?: number;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

const texts: Readonly<Record<string, string>> = {
  email: 'ada@example.com',
  uuid: '00000000-0000-7000-8000-000000000000',
  uri: 'https://example.com',
  'date-time': '2030-01-01T00:00:00.000Z',
};

/** Only what is required: an optional field with a made-up value is what is refused most often. */
const objectOf = ({ properties = {}, required = [] }: Schema): Json =>
  Object.fromEntries(required.map((name) => [name, valueOf(properties[name] ?? {}, name)]));

const minNumber = ({ minimum = 1 }: Schema): number => Math.max(1, minimum);

const byType: Readonly<Record<string, (schema: Schema, name: string) => unknown>> = {
  object: objectOf,
  array: ({ items }, name) => (items === undefined ? [] : [valueOf(items, name)]),
  integer: minNumber,
  number: minNumber,
  boolean: () => true,
  string: ({ format = '' }, name) => texts[format] ?? name,
};

const plainValueOf = (schema: Schema, name: string): unknown => {
  const type = typeof schema.type === 'string' ? schema.type : schema.type?.[0];
  return byType[type ?? '']?.(schema, name) ?? null;
};

const valueOf = (schema: Schema, name: string): unknown => {
  const [first] = schema.anyOf ?? schema.oneOf ?? [];
  if (first !== undefined) return valueOf(first, name);
  return schema.const ?? schema.default ?? schema.enum?.[0] ?? plainValueOf(schema, name);
};

/**
 * A body that the endpoint takes as it is; undefined when none is known.
 * @param schema the JSON schema of the endpoint's body
 */
export const exampleOf = ({ method, path, body }: Endpoint, schema: Json): unknown => {
  if (body === undefined) return undefined;
  const example = writtenOf(`${method} ${path}`) ?? valueOf(schema, 'example');
  return body.safeParse(example).success ? example : undefined;
};

/** The endpoints whose examples are written by hand. */
export const writtenExamples = Object.keys(written);
