import test from 'ava';
import { createRunnableLoader } from '#domain/functions/runnables.ts';
import type { RunnableRow } from '#domain/functions/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { Sealer } from '#lib/secrets.ts';

interface Given {
  readonly compiled: string;
  readonly env: Readonly<Record<string, string>>;
}

/** A loader over functions that all look the same, and how often it asked for each. */
const loaderOf = ({ compiled, env }: Given) => {
  const requested: string[] = [];
  let envVersion = 0;
  const deleted = new Set<string>();
  let now = 1;
  const row = {
    project_id: 'p',
    language: 'javascript',
    data_key: Buffer.alloc(0),
    entrypoint: null,
    entry_point: 'handler',
    compiled,
    timeout_ms: 1000,
    memory_mb: 64,
    env_sealed: Buffer.alloc(1),
    shared_sealed: null,
    env_version: 0,
    has_steps: false,
  } satisfies RunnableRow;
  const db = {
    query: (_sql: string, [id]: readonly unknown[] = []) => {
      requested.push(String(id));
      return Promise.resolve(deleted.has(String(id)) ? [] : [{ ...row, env_version: envVersion }]);
    },
  } as unknown as Queryable;
  const sealer: Sealer = {
    seal: () => Buffer.alloc(1),
    open: () => JSON.stringify(env),
    keyFor: () => Buffer.alloc(32),
  };
  const load = createRunnableLoader(db, () => sealer, { now: () => now });
  const setShared = (version: number): void => void (envVersion = version);
  return { load, requested, deleted, setShared, later: (ms: number) => (now += ms) };
};

test('a version is read once, and a deleted one runs no longer than five seconds', async (t) => {
  const { load, requested, deleted, later } = loaderOf({ compiled: 'x', env: { A: 'b' } });
  t.like(await load('one', 1, 0), { compiled: 'x', env: { A: 'b' } });
  later(4000);
  t.truthy(await load('one', 1, 0));
  t.is(requested.length, 1);
  deleted.add('one');
  later(1001);
  t.is(await load('one', 1, 0), undefined);
});

test('a version is read again when the run asks for later variables of the project than are remembered', async (t) => {
  const { load, requested, setShared } = loaderOf({ compiled: 'x', env: {} });
  await load('one', 1, 0);
  setShared(2);
  t.is((await load('one', 1, 2))?.envVersion, 2);
  // A run that started a moment earlier takes the later ones.
  t.is((await load('one', 1, 1))?.envVersion, 2);
  t.is(requested.length, 2);
});

const remembered = async (given: Given): Promise<number> => {
  const { load, requested } = loaderOf(given);
  const ids = Array.from({ length: 700 }, (_, i) => `fn-${i}`);
  for (const id of ids) await load(id, 1, 0);
  const before = requested.length;
  // The latest first, so that what is read anew pushes out nothing that is still to be asked for.
  for (const id of ids.toReversed()) await load(id, 1, 0);
  return ids.length - (requested.length - before);
};

test('what is remembered is bounded with its variables', async (t) => {
  const large = await remembered({ compiled: 'x', env: { A: 'b'.repeat(128 * 1024) } });
  t.true(large > 200 && large <= 256, `${large}`);
  const many = Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`NAME_${i}`, '']));
  t.true((await remembered({ compiled: 'x', env: many })) <= 256);
  t.is(await remembered({ compiled: 'x', env: {} }), 700);
});
