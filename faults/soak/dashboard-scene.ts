/** A call of the management API as the owner of a project. @throws {Error} when it is refused */
export type Ask = (method: string, path: string, body?: unknown) => Promise<Record<string, unknown>>;

export interface DashboardScene {
  /** The addresses of all pages, below that of the dashboard. */
  readonly pages: readonly string[];
  /** One thing that pages hear of happens: a run that logs, a delivery, and now and then a change of the schema. */
  readonly happen: (nth: number) => Promise<void>;
}

const schemaEvery = 10;

interface Filled {
  readonly id: string;
  readonly orgId: string;
  /** Its bucket has the same name. */
  readonly slug: string;
}

interface Made {
  readonly fn: string;
  readonly hook: string;
  readonly cron: string;
  readonly user: string;
}

const pagesOf = ({ id, orgId, slug }: Filled, { fn, hook, cron, user }: Made): string[] => {
  const ofOrg = ['', '/projects', '/roles', '/audit', '/settings'];
  const ofData = ['', '/traffic', '/tables', '/tables/notes', '/schema', '/schema/notes', '/sql', '/slow-queries'];
  const ofFiles = ['/storage', `/storage/${slug}`, '/vectors'];
  const ofWork = ['/functions', `/functions/${fn}`, `/functions/${fn}?tab=runs`, '/jobs', '/cron', `/cron/${cron}`];
  const ofEvents = ['/webhooks', `/webhooks/${hook}`, '/ai', '/logs'];
  const ofPeople = ['/users', `/users/${user}`, '/sign-in', '/flags', '/flags/flag', '/segments'];
  const ofSettings = ['/mail', '/integrations', '/keys', '/settings'];
  const ofProject = [...ofData, ...ofFiles, ...ofWork, ...ofEvents, ...ofPeople, ...ofSettings];
  return [
    '',
    '/account',
    ...ofOrg.map((path) => `/orgs/${orgId}${path}`),
    ...ofProject.map((path) => `/projects/${id}${path}`),
  ];
};

const logging = `exports.handler = (n) => {
  for (let i = 0; i < 5; i += 1) console.log('run', n, 'line', i);
  return n;
}`;

/** One thing of each kind. */
const makeAll = async (ask: Ask, receiver: string): Promise<Made> => {
  const made = async (path: string, body: unknown): Promise<string> => String((await ask('POST', path, body))['id']);
  const fn = await made('/functions', { name: 'logs', language: 'javascript', code: logging });
  const target = { type: 'function', function_id: fn };
  await ask('POST', '/flags', { key: 'flag', name: 'Flag', flag_type: 'boolean', value: true });
  return {
    fn,
    hook: await made('/integrations/webhooks', { url: receiver, events: ['table.notes.INSERT'] }),
    cron: await made('/cron', { name: 'nightly', schedule: '0 3 * * *', target }),
    user: await made('/users', { email: 'ada@example.com' }),
  };
};

/**
 * Makes one thing of each kind in a project.
 * @param receiver the address to which deliveries go
 */
export const fillProject = async (callApi: Ask, project: Filled, receiver: string): Promise<DashboardScene> => {
  const ask: Ask = (method, path, body) => callApi(method, `/projects/${project.id}${path}`, body);
  const sql = (text: string) => ask('POST', '/db/query', { sql: text });
  await sql('create table notes (id bigint generated always as identity primary key, text text)');
  await sql(`insert into notes (text) select 'note ' || i from generate_series(1, 500) i`);
  const made = await makeAll(ask, receiver);
  return {
    pages: pagesOf(project, made),
    happen: async (nth) => {
      await ask('POST', `/functions/${made.fn}/jobs`, { payload: nth });
      await sql(`insert into notes (text) values ('happened ${nth}')`);
      const isNew = nth % (2 * schemaEvery) === 0;
      if (nth % schemaEvery === 0) await sql(isNew ? 'create table passing (id int)' : 'drop table if exists passing');
    },
  };
};
