import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import test from 'ava';
import { releaseLeftReservations } from '#domain/ai/usage/budget.ts';
import { closeLostCalls } from '#domain/ai/usage/call-store.ts';
import { usageReport } from '#domain/ai/usage/report.ts';
import { startProcess } from '#test/support/processes.ts';
import { startProxyTo } from '#test/support/tcp-proxy.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { forgetHeartbeats, monthOf, rowsOf, useUsageScene } from './usage-scene.ts';

const scene = useUsageScene(test);
const caller = path.join(import.meta.dirname, 'usage-caller.ts');
const budget = 40_000;
const rounds = 6;

const openWay = () => startProxyTo(scene().url);

/** The callers' lines about each call, by their first word. */
const parse = (outputs: readonly string[]): ReadonlyMap<string, ReadonlyMap<string, number>> => {
  const said = new Map<string, Map<string, number>>();
  // The last line of one that was killed may be cut.
  for (const line of outputs.flatMap((output) => output.split('\n').slice(0, -1))) {
    const [what = '', id = '', cost = ''] = line.split(' ');
    said.set(what, (said.get(what) ?? new Map<string, number>()).set(id, Number(cost)));
  }
  return said;
};

/** Callers are killed and their connections cut, at any moment. */
const makeTrouble = async (projects: readonly string[]): Promise<string[]> => {
  const { proxy, url } = await openWay();
  const outputs: string[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const pair = [1, 2].map(() => startProcess(caller, { DATABASE_URL: url, PROJECTS: projects.join(',') }));
    await Promise.all(pair.map(({ ready }) => ready));
    await until(() => pair.every(({ stdout }) => stdout().includes('settled')));
    for (let cuts = 0; cuts < 3; cuts += 1) {
      await pause(Math.random() * 60);
      proxy.cut();
    }
    await pause(Math.random() * 60);
    for (const { child } of pair) child.kill('SIGKILL');
    await Promise.all(pair.map(({ end }) => end));
    outputs.push(...pair.map(({ stdout }) => stdout()));
  }
  await proxy.close();
  return outputs;
};

test('whoever is killed and whatever is cut, each call is one row, and no budget is exceeded', async (t) => {
  t.timeout(longTestMs);
  const { db, createProject } = scene();
  const hard = { monthly_usd: budget / 1e9, hard: true };
  const projects = await Promise.all([createProject(), createProject(hard), createProject(hard)]);
  const said = parse(await makeTrouble(projects));
  const ids = (what: string): string[] => [...(said.get(what)?.keys() ?? [])];
  await Promise.all(projects.map((id) => forgetHeartbeats(db, id)));
  // Statements of callers that are gone may still be at work.
  await until(async () => {
    const busy = await db.query(
      `select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle'`,
    );
    return busy.length === 0;
  });
  await until(async () => {
    await closeLostCalls(db, 10_000);
    return (await Promise.all(projects.map((id) => rowsOf(db, id)))).flat().every(({ status }) => status !== 'open');
  });
  await releaseLeftReservations(db);

  const rows = new Map((await Promise.all(projects.map((id) => rowsOf(db, id)))).flat().map((row) => [row.id, row]));
  const started = new Set(ids('begun'));
  t.true(ids('recorded').length > 100);
  t.deepEqual(
    ids('recorded').filter((id) => !rows.has(id)),
    [],
    'every call that was recorded has its row',
  );
  t.deepEqual(
    [...rows.keys()].filter((id) => !started.has(id)),
    [],
    'every row is a call',
  );
  t.deepEqual(
    ids('refused').filter((id) => rows.has(id)),
    [],
    'what was refused has none',
  );
  const refused = new Set(ids('refused'));
  for (const [id, cost] of said.get('settled') ?? []) {
    if (!refused.has(id)) t.is(rows.get(id)?.cost_nano_usd, cost);
  }
  for (const [at, project] of projects.entries()) {
    const costs = (await rowsOf(db, project)).map((row) => row.cost_nano_usd ?? 0);
    const sum = costs.reduce((total, cost) => total + cost, 0);
    const report = await usageReport(db, project, 2);
    t.is(report.total_requests, costs.length);
    t.is(report.total_cost_nano_usd, sum);
    if (at === 0) continue;
    t.true(sum <= budget, `${sum}`);
    t.deepEqual(await monthOf(db, project), { used: sum, reserved: 0 });
  }
});
