import type { SignedIn, WithKey } from '#api/access.ts';
import test from 'ava';
import type { Endpoint } from '#api/endpoint.ts';
import { endpoints } from '#api/endpoints.ts';
import { type Scope, includes } from '#domain/accounts/scopes.ts';
import { type Role, atLeast } from '#domain/teams/store.ts';
import { type Answer, type TestProject, type TestUser, uniqueName } from '#test/support/client.ts';
import { opsToken, usePlatform } from '#test/support/platform.ts';
import { areaValues } from './area-values.ts';
import {
  aiCallFor,
  deliveryFor,
  emailFor,
  inviteAs,
  mailFor,
  mustBe,
  providerFor,
  scheduleFor,
  webhookFor,
} from './made-values.ts';

const platform = usePlatform(test);

const roles = ['viewer', 'developer', 'admin', 'owner'] as const satisfies readonly Role[];
const callers = [
  'nobody',
  'garbage',
  'a refresh token',
  ...roles,
  'non-member',
  'a foreign secret key',
  'a foreign publishable key',
  'the publishable key',
  'the secret key',
  'the ops token',
  'a token to read',
  'a token to write',
] as const;
type CallerName = (typeof callers)[number];

interface Scene {
  readonly orgId: string;
  readonly project: TestProject;
  readonly foreignProject: TestProject;
  readonly users: Readonly<Record<Role | 'non-member', TestUser>>;
  /** Personal access tokens of the owner. */
  readonly tokens: Readonly<Record<'read' | 'write', string>>;
}

let scene: Scene;

test.before('an organization has a project and one member of each role', async () => {
  const { client } = platform();
  const [owner, admin, developer, viewer, stranger] = await Promise.all(
    Array.from({ length: 5 }, () => client.signUp()),
  );
  if (!owner || !admin || !developer || !viewer || !stranger) throw new Error('five users were asked for');
  // A plan with room for all that is made for it here.
  const own = client.createProject(owner, { plan: 'pro' });
  const [project, foreignProject] = await Promise.all([own, client.createProject(stranger)]);
  for (const [role, user] of Object.entries({ admin, developer, viewer })) {
    await inviteAs(client, { owner, orgId: project.orgId, user, role: role as Role });
  }
  const personal = async (scope: Scope): Promise<string> => {
    const body = { name: scope, scopes: [scope] };
    return String(mustBe(201, await client.call('POST', '/auth/tokens', { token: owner.token, body })).body.token);
  };
  const tokens = { read: await personal('read'), write: await personal('write') };
  const users = { owner, admin, developer, viewer, 'non-member': stranger };
  scene = { orgId: project.orgId, project, foreignProject, users, tokens };
});

/** A sign-in of its own, for what ends it. */
const freshTokenOf = async (user: TestUser): Promise<string> => {
  const { email, password } = user;
  const login = await platform().client.call('POST', '/auth/login', { body: { email, password } });
  return String(mustBe(200, login).body.access_token);
};

/** The credentials of each caller who is no user. */
const credentials = {
  nobody: () => undefined,
  garbage: () => `plinth_at_${'x'.repeat(43)}`,
  'a refresh token': () => scene.users.owner.refreshToken,
  'a foreign secret key': () => scene.foreignProject.key,
  'a foreign publishable key': () => scene.foreignProject.publishableKey,
  'the publishable key': () => scene.project.publishableKey,
  'the secret key': () => scene.project.key,
  'the ops token': () => opsToken,
  'a token to read': () => scene.tokens.read,
  'a token to write': () => scene.tokens.write,
} as const satisfies Partial<Record<CallerName, () => string | undefined>>;

const isStranger = (caller: CallerName): caller is keyof typeof credentials => Object.hasOwn(credentials, caller);

const credentialOf = (caller: CallerName, path: string): Promise<string> | string | undefined => {
  if (isStranger(caller)) return credentials[caller]();
  const user = scene.users[caller];
  return path === '/auth/logout' ? freshTokenOf(user) : user.token;
};

const asOwner = (method: string, path: string, body?: unknown): Promise<Answer> =>
  platform().client.call(method, path, {
    token: scene.users.owner.token,
    headers: { 'x-org-id': scene.orgId },
    ...(body !== undefined && { body }),
  });

/** A project that may be lost: only the owner's deletion needs one of its own. */
const projectFor = async ({ method, path }: Endpoint, fresh: boolean): Promise<string> => {
  if (!fresh || method !== 'delete' || path !== '/projects/{project_id}') return scene.project.id;
  return (await platform().client.createProject(scene.users.owner)).id;
};

/** An organization that may be lost: only the owner's deletion needs one of its own. */
const organizationFor = async ({ method, path }: Endpoint, fresh: boolean): Promise<string> => {
  if (!fresh || method !== 'delete' || path !== '/team/orgs/current') return scene.orgId;
  return String(mustBe(201, await asOwner('POST', '/team/orgs', { org_name: 'to lose' })).body.org_id);
};

const functionFor = async (field: 'id' | 'slug'): Promise<string> => {
  const fn = await platform().client.deploy(scene.users.owner, scene.project, 'export const handler = () => 1;');
  // Its first version is a replaced one.
  mustBe(200, await asOwner('PATCH', `/projects/${scene.project.id}/functions/${fn.id}`, { timeout_ms: 9000 }));
  return fn[field];
};

const begin = async (functionId: string): Promise<string> => {
  const path = `/projects/${scene.project.id}/functions/${functionId}/invoke`;
  const options = { token: scene.users.owner.token, body: { payload: 1 }, headers: { prefer: 'respond-async' } };
  return String(mustBe(202, await platform().client.call('POST', path, options)).body.job_id);
};

/** A run of the function that the path names before it. */
const invocationFor = (path: string): Promise<string> => begin(/\/functions\/([^/]+)/.exec(path)?.[1] ?? '');

const keyFor = async (): Promise<string> => {
  const made = await asOwner('POST', `/projects/${scene.project.id}/api-keys`, { name: 'to lose', kind: 'secret' });
  return String(mustBe(201, made).body.id);
};

const memberFor = async (): Promise<string> => {
  const body = { email: `${uniqueName('guest')}@example.com`, role: 'viewer' };
  return String(mustBe(201, await asOwner('POST', '/team/invite', body)).body.id);
};

const userFor = async (): Promise<string> => {
  const body = { email: `${uniqueName('user')}@example.com` };
  return String(mustBe(201, await asOwner('POST', `/projects/${scene.project.id}/users`, body)).body.id);
};

const clientFor = async (): Promise<string> => {
  const body = { name: 'to lose', redirect_uris: ['https://app.example/callback'] };
  return String(mustBe(201, await asOwner('POST', `/projects/${scene.project.id}/oauth/clients`, body)).body.client_id);
};

const jobFor = async (): Promise<string> => begin(await functionFor('id'));

const tableFor = async (): Promise<string> => {
  const name = uniqueName('to_lose');
  const body = { name, columns: [{ name: 'lost', type: 'int' }] };
  mustBe(201, await asOwner('POST', `/projects/${scene.project.id}/db/tables`, body));
  return name;
};

const runSql = async (sql: string): Promise<void> => {
  mustBe(200, await asOwner('POST', `/projects/${scene.project.id}/db/query`, { sql }));
};

const enumFor = async (): Promise<string> => {
  const name = uniqueName('enum_to_lose');
  await runSql(`create type ${name} as enum ('lost')`);
  return name;
};

/** Shared, so that every member sees it. */
const snippetFor = async (): Promise<string> => {
  const body = { name: 'to lose', sql: 'select 1', shared: true };
  return String(mustBe(201, await asOwner('POST', `/projects/${scene.project.id}/snippets`, body)).body.id);
};

/** A branch that may be lost. */
const branchFor = async (): Promise<string> =>
  String(
    mustBe(201, await asOwner('POST', `/projects/${scene.project.id}/branches`, { name: uniqueName('branch') })).body
      .id,
  );

type Values = Readonly<Record<string, () => Promise<string> | string>>;

/** The value of a parameter for any endpoint. */
const valuesOf: Values = {
  ref: () => scene.project.ref,
  org_id: () => scene.project.orgId,
  job_id: jobFor,
  type: () => 'function.invoke',
  key_id: keyFor,
  branch_id: branchFor,
  cid: () => scheduleFor(asOwner, scene.project.id),
  provider: () => providerFor(asOwner, scene.project.id),
  webhook_id: () => webhookFor(asOwner, scene.project.id),
  event_id: () => crypto.randomUUID(),
  call_id: () => aiCallFor(platform().db, scene.project.id),
  email_id: () => emailFor(platform().db, scene.project.id),
  mail_id: () => mailFor(platform(), scene.users.owner.email),
  table: tableFor,
  column: () => 'lost',
  enum: enumFor,
  constraint: () => 'none',
  index: () => 'none',
  policy: () => 'none',
  snippet_id: snippetFor,
  uid: userFor,
  client_id: clientFor,
  factor_id: () => crypto.randomUUID(),
  identity_id: () => crypto.randomUUID(),
  v: () => '1',
  example: () => 'todo',
  upload_id: () => crypto.randomUUID(),
  bucket: () => scene.project.slug,
  path: () => 'folder/file.txt',
  token: () => 'plinth_invite_of_nobody',
};

/** The same in one area, where the name means something else. */
const valuesOfArea: Readonly<Record<string, Values>> = areaValues({ runSql, ask: asOwner, id: () => scene.project.id });

/** Something real for each parameter of a path; a new parameter needs a line here or above. */
const valueOf = (endpoint: Endpoint, parameter: string, fresh: boolean): Promise<string> | string => {
  if (parameter === 'project_id') return projectFor(endpoint, fresh);
  const known = valuesOfArea[endpoint.area]?.[parameter] ?? valuesOf[parameter];
  if (known) return known();
  if (parameter === 'slug' && endpoint.area === 'functions') return functionFor('slug');
  if (parameter === 'function_id' || endpoint.area === 'functions') return functionFor('id');
  if (parameter === 'id' && endpoint.area === 'teams') return memberFor();
  throw new Error(`what is {${parameter}} of ${endpoint.path}?`);
};

const known = new Map<string, string>();

/** @param fresh whether the call may change what the path names; what only refused callers see can be shared */
const pathOf = async (endpoint: Endpoint, fresh: boolean): Promise<string> => {
  let path = endpoint.path;
  for (const [placeholder, parameter = ''] of endpoint.path.matchAll(/\{(\w+)\}/g)) {
    const name = `${endpoint.area} ${parameter}`;
    const make = (): Promise<string> | string => {
      if (parameter === 'iid') return invocationFor(path);
      return parameter === 'did' ? deliveryFor(platform().db, path) : valueOf(endpoint, parameter, fresh);
    };
    const value = (fresh ? undefined : known.get(name)) ?? (await make());
    if (!fresh) known.set(name, value);
    path = path.replace(placeholder, value);
  }
  return path;
};

const isRole = (caller: CallerName): caller is Role => (roles as readonly string[]).includes(caller);
const isUser = (caller: CallerName): boolean => isRole(caller) || caller === 'non-member';

/** Rules that are finer than the declared role, because they look at what is asked. */
const finer: Readonly<Record<string, readonly CallerName[]>> = {
  // Anyone may leave; taking back somebody else's invite needs admin.
  'DELETE /team/members/{id}': ['viewer', 'developer', 'a token to read', 'a token to write'],
};

const scopeOf = (caller: CallerName): Scope | undefined => {
  if (caller === 'a token to read') return 'read';
  return caller === 'a token to write' ? 'write' : undefined;
};

const expectedOfMember = (caller: CallerName, min: Role): number | 'served' => {
  const scope = scopeOf(caller);
  if (scope !== undefined) return atLeast(scope === 'read' ? 'viewer' : 'developer', min) ? 'served' : 403;
  if (caller === 'non-member') return 404;
  if (!isRole(caller)) return 401;
  return atLeast(caller, min) ? 'served' : 403;
};

const expectedOfKey = (
  caller: CallerName,
  path: string,
  { keys: kinds, byUser }: Pick<WithKey, 'keys' | 'byUser'>,
): number | 'served' => {
  if (!caller.endsWith(' key') || byUser === true) return 401;
  // Below a project's own address another project's key is no key.
  if (caller.startsWith('a foreign') && path.startsWith('/p/{ref}')) return 401;
  if (!kinds.some((kind) => caller.includes(kind))) return 403;
  // Policies decide, and lists of what is not there are empty.
  if (path.startsWith('/storage/v1')) return 'served';
  // A key names its project: what another project has is not there.
  return caller.startsWith('a foreign') && path.includes('{') ? 404 : 'served';
};

const expectedOfSignIn = (caller: CallerName, access: SignedIn): number | 'served' => {
  const scope = scopeOf(caller);
  if (scope === undefined && !isUser(caller)) return 401;
  if (access.byCookie) return 403;
  if (scope === undefined) return 'served';
  return access.scope !== undefined && includes(scope, access.scope) ? 'served' : 403;
};

const expected = ({ method, path, access }: Endpoint, caller: CallerName): number | 'served' => {
  if (finer[`${method.toUpperCase()} ${path}`]?.includes(caller)) return 403;
  switch (access.kind) {
    case 'everyone':
      return 'served';
    case 'signed-in':
      return expectedOfSignIn(caller, access);
    case 'project':
    case 'organization':
      return expectedOfMember(caller, access.role);
    case 'key':
      return expectedOfKey(caller, path, access);
    case 'operator':
      return caller === 'the ops token' ? 'served' : 401;
  }
};

// The statuses of a caller who is admitted with a meaningless request.
const refusals = new Set([401, 403, 404]);
// Anyone may come, with a token or a signature of their own.
const isDecidedByPolicies = (path: string): boolean => path.includes('/storage/v1/');

const askForProof = new Set([
  '/team/invite/{token}/accept',
  '/invite/{token}',
  '/p/{ref}/auth/v1/verify',
  '/p/{ref}/ofrep/v1/streams',
  // The change is one of another flag.
  '/projects/{project_id}/flags/{key}/schedule/{schedule_id}',
  '/projects/{project_id}/functions/{function_id}/triggers/{trigger_id}',
  // A part of the table that it is asked of.
  '/projects/{project_id}/db/tables/{table}/constraints/{constraint}',
  '/projects/{project_id}/db/tables/{table}/indexes/{index}',
  '/projects/{project_id}/db/tables/{table}/policies/{policy}',
  // A factor exists once its user has set it up.
  '/projects/{project_id}/users/{uid}/factors/{factor_id}',
  '/p/{ref}/auth/v1/admin/users/{uid}/factors/{factor_id}',
  '/p/{ref}/auth/v1/verify/confirm',
  '/p/{ref}/auth/v1/callback',
  '/p/{ref}/auth/v1/user/identities/{identity_id}',
  '/oauth/{project_id}/userinfo',
  // Objects of another caller do not exist for this one.
  '/auth/sessions/{id}',
  '/auth/tokens/{id}',
  // A form must come from the page itself.
  '/device',
  '/api/jobs/{job_id}',
  '/hooks/events/{event_id}/data',
  '/hooks/{project_id}/{provider}',
]);

for (const endpoint of endpoints) {
  const { path, access } = endpoint;
  const method = endpoint.method.toUpperCase();
  for (const caller of callers) {
    const outcome = expected(endpoint, caller);
    // One after the other: some 400 at once would be a load test.
    test.serial(`${method} ${path} by ${caller}: ${outcome}`, async (t) => {
      const url = await pathOf(endpoint, outcome === 'served' && method !== 'GET');
      const organization = await organizationFor(endpoint, outcome === 'served');
      const token = await credentialOf(caller, path);
      const answer = await platform().client.call(method, url, {
        token,
        headers: access.kind === 'organization' ? { 'x-org-id': organization } : {},
        ...(method !== 'GET' && { body: path.endsWith('/invoke') ? { payload: 1 } : {} }),
      });
      t.true(answer.status < 500, answer.text);
      if (outcome !== 'served') t.is(answer.status, outcome, answer.text);
      else if (!askForProof.has(path) && !isDecidedByPolicies(path)) t.false(refusals.has(answer.status), answer.text);
      if (answer.status === 401) t.truthy(answer.headers.get('www-authenticate'));
    });
  }
}

for (const header of ['apikey', 'x-api-key']) {
  test(`a key in ${header} opens nothing that needs a sign-in`, async (t) => {
    for (const { method, path, access } of endpoints) {
      if (!['project', 'organization', 'signed-in', 'operator'].includes(access.kind)) continue;
      const url = path.replaceAll('{project_id}', scene.project.id).replaceAll(/\{\w+\}/g, crypto.randomUUID());
      const options = { headers: { [header]: scene.project.key } };
      const answer = await platform().client.call(method.toUpperCase(), url, options);
      t.is(answer.status, 401, `${method} ${path}`);
    }
  });
}

test('a project that does not exist and one of somebody else look alike', async (t) => {
  const { call } = platform().client;
  const { token } = scene.users['non-member'];
  const [foreign, nowhere, nonsense] = await Promise.all(
    [scene.project.id, crypto.randomUUID(), 'nonsense'].map((id) => call('GET', `/projects/${id}`, { token })),
  );
  for (const answer of [nowhere, nonsense]) {
    t.is(answer?.status, foreign?.status);
    t.deepEqual({ ...answer?.body, request_id: '' }, { ...foreign?.body, request_id: '' });
  }
});

test('an organization that does not exist and one of somebody else look alike', async (t) => {
  const { call } = platform().client;
  const { token } = scene.users['non-member'];
  const ask = (orgId: string) => call('GET', '/team/members', { token, headers: { 'x-org-id': orgId } });
  const [foreign, nowhere] = await Promise.all([ask(scene.orgId), ask('abcdefghij012345')]);
  t.is(foreign.status, 404);
  t.deepEqual({ ...nowhere.body, request_id: '' }, { ...foreign.body, request_id: '' });
});
