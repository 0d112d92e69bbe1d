import test from 'ava';
import type { DatabaseServers } from '#domain/database-servers/database-servers.ts';
import { slowQueries } from '#domain/database/slow-queries.ts';
import { openPlatform } from '#domain/platform.ts';
import { findProject } from '#domain/projects/store.ts';
import type { ServiceError } from '#lib/errors.ts';
import { isError } from '#test/support/is-error.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { type DatabaseScene, openScene } from './scene.ts';

const platform = usePlatform(test);

let scene: DatabaseScene;
let neighbour: DatabaseScene;

test.before('there are two projects', async () => {
  scene = await openScene(platform());
  neighbour = await openScene(platform());
});

interface Slow {
  readonly query: string;
  readonly calls: number;
}

const slowOf = async ({ call, viewer }: DatabaseScene, page = '?limit=200') => {
  const answer = await call('GET', `/slow-queries${page}`, undefined, viewer);
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.body as { readonly queries: readonly Slow[]; readonly total: number };
};

test.serial('slow queries are the project’s own, counted and without their values', async (t) => {
  await scene.run('create table spoken (word text)');
  for (const word of ['hunter2', 'hunter3']) await scene.run(`select word from spoken where word = '${word}'`);
  await scene.run(`comment on table spoken is 'unheard'`);
  await neighbour.run('create table overheard (n int)');
  const { queries, total } = await slowOf(scene);
  t.is(total, queries.length);
  const found = queries.find(({ query }) => query.includes('from spoken'));
  t.is(found?.query, 'select word from spoken where word = $1');
  t.is(found?.calls, 2);
  const numbers = ['calls', 'total_ms', 'mean_ms', 'max_ms', 'rows'];
  for (const name of numbers) t.is(typeof Reflect.get(found ?? {}, name), 'number');
  const text = JSON.stringify(queries);
  for (const secret of ['hunter', 'overheard', 'unheard', 'plinth', neighbour.project.ref])
    t.false(text.includes(secret));
  // The server forgets statements that were seldom called, when the tests of all files have called 20,000 others.
  const ofNeighbour = await until(async () => {
    await neighbour.run('select n from overheard');
    return (await slowOf(neighbour)).queries.find(({ query }) => query.includes('overheard'));
  });
  t.is(ofNeighbour.query, 'select n from overheard');
});

test.serial('slow queries come in pages', async (t) => {
  await scene.run('select 1 as one, 2 as two');
  const { queries, total } = await slowOf(scene, '?limit=1');
  t.is(queries.length, 1);
  t.true(total >= 1);
  isError(t, await scene.call('GET', '/slow-queries?limit=201'), 400, 'validation_failed');
});

test.serial(
  'a project that asks often takes one of the platform’s connections, and none from its neighbour',
  async (t) => {
    const opened = await openPlatform(platform().config, memoryLog().log);
    t.teardown(() => opened.close());
    const open = Promise.withResolvers<void>();
    let connected = 0;
    const waiting: Pick<DatabaseServers, 'admin'> = {
      admin: async (serverId) => {
        const pool = await opened.servers.admin(serverId);
        const connect = async () => {
          connected += 1;
          await open.promise;
          return pool.connect();
        };
        return Object.create(pool, { connect: { value: connect } }) as typeof pool;
      },
    };
    const rowOf = async ({ project }: DatabaseScene) => {
      const row = await findProject(opened.db, project.id);
      if (row === undefined) throw new Error('the project has no row');
      return row;
    };
    const [own, other] = [await rowOf(scene), await rowOf(neighbour)];
    const page = { limit: 1, offset: 0 };
    const read = Array.from({ length: 7 }, () => slowQueries(waiting, own, page));
    const refused = await Promise.allSettled(read.slice(5));
    t.deepEqual(
      refused.map((end) => end.status === 'rejected' && (end.reason as ServiceError).code),
      ['dependency_unavailable', 'dependency_unavailable'],
    );
    const beside = slowQueries(waiting, other, page);
    await until(async () => Promise.resolve(connected === 2));
    open.resolve();
    t.is((await Promise.all([...read.slice(0, 5), beside])).length, 6);
  },
);
