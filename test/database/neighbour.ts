import type { ExecutionContext } from 'ava';
import type { TestPlatform } from '#test/support/platform.ts';
import { openScene } from './scene.ts';

/** A project beside the one that attacks. */
export interface Neighbour {
  readonly ref: string;
  readonly dbName: string;
  /** Runs an attack. What the neighbour asks meanwhile, again and again, must all be answered by 2xx. */
  readonly unharmed: <T>(t: ExecutionContext, attack: () => Promise<T>) => Promise<T>;
}

// Resources that the server shares among all databases: its lock table, its catalogs, its memory and its processes.
const sharedThings = `do $$ begin
  lock table kept in row exclusive mode;
  perform pg_advisory_xact_lock_shared(1);
  create table passing (x int primary key);
  insert into passing select generate_series(1, 100);
  drop table passing;
end $$`;

export const openNeighbour = async (platform: TestPlatform): Promise<Neighbour> => {
  const { client } = platform;
  const { project, run, query } = await openScene(platform);
  await run('create table kept (id int primary key generated always as identity, text text)');
  const { key, ref, dbName } = project;
  const requests = {
    'REST write': () => client.call('POST', '/v1/rest/kept', { key, body: { text: 'x' } }),
    'REST read': () => client.call('GET', '/v1/rest/kept?select=id,text&order=id.desc&limit=25', { key }),
    'console read': () => query('select count(*) from kept'),
    'console change': () => query(sharedThings),
  };
  const askAll = async (t: ExecutionContext): Promise<void> => {
    for (const [what, ask] of Object.entries(requests)) {
      const { status, text } = await ask();
      t.true(status >= 200 && status < 300, `${what} of the neighbour: ${status} ${text.slice(0, 300)}`);
    }
  };
  const unharmed: Neighbour['unharmed'] = async (t, attack) => {
    let lasting = true;
    const attacking = attack().finally(() => {
      lasting = false;
    });
    const asking = (async () => {
      do await askAll(t);
      while (lasting);
    })();
    const [result] = await Promise.all([attacking, asking]);
    return result;
  };
  return { ref, dbName, unharmed };
};
