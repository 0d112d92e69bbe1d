import test, { type ExecutionContext } from 'ava';
import { closeLostCalls } from '#domain/ai/usage/call-store.ts';
import { newId } from '#lib/ids.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type PlatformProcess, environmentOf, startProcess } from '#test/support/processes.ts';
import { type TcpProxy, startProxyTo } from '#test/support/tcp-proxy.ts';
import { patienceMs } from '#test/support/time-outs.ts';
import { type ChatScene, createScene, saying } from './chat-scene.ts';

/** How many calls are made; more of them for a longer look: `PLINTH_TEST_CALLS=20000`. */
const calls = Number(process.env['PLINTH_TEST_CALLS'] ?? 160);
const callers = 12;
/** About so many calls lie between two kills of the API, and between two cuts of its connections to Postgres. */
const callsToKill = 60;
const callsToCut = 25;
/** The run can be had again with `PLINTH_TEST_SEED`. */
const seed = Number(process.env['PLINTH_TEST_SEED'] ?? Date.now() % 1_000_000);

/** Numbers from 0 to 1, the same for the same seed (a linear congruential generator). */
const randomFrom = (start: number): (() => number) => {
  let state = start >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
};

const random = randomFrom(seed);

/** Does something again and again, with half to one and a half times `calls` between. */
const each = (between: number, what: () => void): ((done: number) => void) => {
  const soon = (): number => between * (0.5 + random());
  let next = soon();
  return (done) => {
    if (done < next) return;
    next = done + soon();
    what();
  };
};

const platform = usePlatform(test);

let scene: ChatScene;
let proxy: TcpProxy;
let environment: Record<string, string>;

test.before('a project has a provider, and the way to Postgres can be cut', async () => {
  scene = await createScene(platform());
  const proxied = await startProxyTo(platform().config.DATABASE_URL);
  proxy = proxied.proxy;
  environment = { ...environmentOf(platform().config), DATABASE_URL: proxied.url, PORT: '0' };
});
test.after.always('both are gone', async () => {
  scene.upstream.close();
  await proxy.close();
});

/** An API process that is there again after it was killed. */
interface Mortal {
  readonly base: () => Promise<string>;
  readonly kill: () => void;
  readonly current: () => PlatformProcess;
}

const startMortal = (): Mortal => {
  let current = startProcess('api/server.ts', environment);
  return {
    base: async () => `http://127.0.0.1:${(await current.ready).port}`,
    kill: () => {
      current.child.kill('SIGKILL');
      current = startProcess('api/server.ts', environment);
    },
    current: () => current,
  };
};

/** One call as its client saw it. */
interface Seen {
  /** Undefined: no status line came. */
  status?: number;
}

// Answers at once, late, after retries, cut, and never: those are left by their clients.
const words = ['well', 'SLOW:20', 'ERR500ONCE', 'CUT', 'STALL', 'ERR400', 'BLACKHOLE', 'RESETONCE'];
const mustLeave = /STALL|BLACKHOLE/;

const leaveAfterMs = (word: string): number | null =>
  mustLeave.test(word) || random() < 1 / 3 ? Math.round(random() * 90) : null;

const call = async (api: Mortal, at: number, id: string, seen: Seen): Promise<void> => {
  const word = words[at % words.length] ?? '';
  const leaves = leaveAfterMs(word);
  const path =
    at % 4 === 0 ? '/v1/chat/completions' : `/api/ai/chat${at % 2 === 0 || word === 'STALL' ? '/stream' : ''}`;
  try {
    const answer = await fetch((await api.base()) + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', apikey: scene.project.key, 'x-request-id': id },
      body: JSON.stringify(saying(`${word} ${id}`, path.startsWith('/v1') ? { stream: at % 8 === 0 } : {})),
      ...(leaves !== null && { signal: AbortSignal.timeout(leaves) }),
    });
    seen.status = answer.status;
    await answer.text();
  } catch {
    // It left, or the API was killed: what counts is what is recorded.
  }
};

/** Makes all calls, some at a time, with trouble in between. */
const makeCalls = async (api: Mortal, trouble: (done: number) => void): Promise<Map<string, Seen>> => {
  const seen = new Map<string, Seen>();
  let next = 0;
  let done = 0;
  const work = async (): Promise<void> => {
    while (next < calls) {
      const at = next;
      next += 1;
      const id = newId();
      const mine: Seen = {};
      seen.set(id, mine);
      await call(api, at, id, mine);
      done += 1;
      if (done < calls) trouble(done);
    }
  };
  await Promise.all(Array.from({ length: callers }, work));
  return seen;
};

interface Row {
  readonly request_id: string;
  readonly status: string;
}

const rowsOf = (): Promise<Row[]> =>
  platform().db.query<Row>('select request_id, status from ai_calls where project_id = $1', [scene.project.id]);

const statusesOf = (rows: readonly Row[]): ReadonlyMap<string, readonly string[]> =>
  new Map([...Map.groupBy(rows, (row) => row.request_id)].map(([id, found]) => [id, found.map((row) => row.status)]));

/** The calls that came to the provider; a retry is the same call. */
const requestedIds = (): Set<string> =>
  new Set(scene.upstream.requests.filter(({ kind }) => kind !== 'models').map(({ text }) => text.split(' ')[1] ?? ''));

/** Calls whose process is gone are given up. */
const sweep = async (): Promise<void> => {
  const { db } = platform();
  await db.query(`update ai_call_heartbeats set seen_at = now() - interval '1 hour'`);
  while ((await closeLostCalls(db, 1000)) > 0);
};

const cuts = (): ((done: number) => void) => each(callsToCut, () => proxy.cut());

/** Makes the calls, ends the process, and looks: no call has two rows, and none is left open. */
const settle = async (t: ExecutionContext, api: Mortal, trouble: (done: number) => void) => {
  t.timeout(patienceMs + calls * 1000);
  t.log(`PLINTH_TEST_SEED=${seed}`);
  t.teardown(() => api.current().child.kill('SIGKILL'));
  const seen = await makeCalls(api, trouble);
  await api.current().ready;
  api.current().child.kill('SIGTERM');
  await api.current().end;
  await sweep();
  const rows = statusesOf((await rowsOf()).filter((row) => seen.has(row.request_id)));
  const requested = [...requestedIds()].filter((id) => seen.has(id));
  t.true(requested.length > calls / 2, `${requested.length} calls came to the provider`);
  t.deepEqual(
    [...rows].filter(([, statuses]) => statuses.length > 1 || statuses.includes('open')),
    [],
  );
  return { seen, rows, without: requested.filter((id) => !rows.has(id)) };
};

test.serial('clients leave and connections to Postgres are cut: each call at a provider has one row', async (t) => {
  const { rows, seen, without } = await settle(t, startMortal(), cuts());
  t.deepEqual(
    without.map((id) => ({ id, ...seen.get(id) })),
    [],
  );
  const kinds = new Set([...rows.values()].flat());
  for (const status of ['success', 'error', 'client_closed']) t.true(kinds.has(status), status);
});

/** Well or not; who was told that it could not be recorded knows that there may be no row. */
const isAnswered = ({ status }: Seen = {}): boolean => status !== undefined && status !== 503;

// The intent goes out beside the call, and is there before the first byte of the answer: until then a kill takes along
// what the process knew.
test.serial('the API is killed, too: each call that was answered, well or not, has one row', async (t) => {
  const api = startMortal();
  const [cut, kill] = [cuts(), each(callsToKill, api.kill)];
  const { rows, seen, without } = await settle(t, api, (done) => {
    cut(done);
    kill(done);
  });
  t.deepEqual(
    without.filter((id) => isAnswered(seen.get(id))),
    [],
  );
  t.true([...rows.values()].flat().includes('incomplete'));
});
