import test from 'ava';
import { type TestDatabase, createTestDatabase } from '#test/support/databases.ts';
import { removeRedisKeys, testConfig } from '#test/support/platform.ts';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { until } from '#test/support/until.ts';

let database: TestDatabase;

test.before(async () => {
  database = await createTestDatabase();
});

test.after.always(() => database.drop());

interface Line {
  readonly msg?: string;
  readonly port?: number;
}

const portIn = (stdout: string): number | undefined =>
  stdout
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line) as Line)
    .find(({ msg }) => msg === 'the monitor listens')?.port;

test('a worker process answers probes and scrapes, and ends when it is asked to', async (t) => {
  const config = testConfig(database.url, {
    PLINTH_WORKER_PORT: '0',
    PLINTH_LOG_FORMAT: 'json',
    WORKER_QUEUES: 'system',
  });
  const worker = startProcess('workers/server.ts', environmentOf(config));
  try {
    const port = await until(() => portIn(worker.stdout()));
    const base = `http://127.0.0.1:${port}`;
    t.is((await fetch(`${base}/healthz`)).status, 200);
    await worker.ready;
    const readiness = await fetch(`${base}/readyz`);
    const dependencies = { postgres: true, redis: true, queues: true };
    t.deepEqual(await readiness.json(), { ready: true, dependencies });
    t.regex(await (await fetch(`${base}/metrics`)).text(), /^# TYPE plinth_jobs_finished_total counter$/m);
    worker.child.kill('SIGTERM');
    t.is(await worker.end, 0);
  } finally {
    worker.child.kill('SIGKILL');
    await removeRedisKeys(config);
  }
});
