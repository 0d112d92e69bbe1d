import test from 'ava';
import { createJobGauges } from '#api/metrics.ts';
import { rulesFrom } from '#domain/jobs/limits.ts';
import { openRequestRedis } from '#lib/redis.ts';
import { createGate } from '#queues/gate/gate.ts';
import { jobs } from '#queues/registry.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test);

test('the gauges follow the engine: its workers, its slots, the open gate', async (t) => {
  const { config, db } = platform();
  const type = 'function.invoke';
  const redis = openRequestRedis(config.REDIS_URL, memoryLog().log);
  const rules = rulesFrom(db, jobs, config.PLINTH_WAITING_JOBS);
  await until(() => redis.status === 'ready');
  const gate = createGate({ redis, prefix: config.PLINTH_REDIS_PREFIX, types: [type], shardCount: 1, rules });
  const text = await until(async () => {
    const now = await createJobGauges({ db, gate }, [type])();
    return now.includes(`plinth_jobs_gate_open{type="${type}"} 1`) && now;
  });
  t.regex(text, /^plinth_jobs_workers_alive\{type="function\.invoke"\} 1$/m);
  t.regex(text, /^plinth_jobs_slots\{type="function\.invoke"\} 8$/m);
  t.regex(text, /^plinth_jobs_window\{type="function\.invoke"\} 10$/m);
  t.regex(text, /^plinth_jobs_running\{type="function\.invoke"\} 0$/m);
  t.regex(text, /^plinth_jobs_oldest_wait_seconds\{type="function\.invoke"\} 0$/m);
  await gate.close();
  redis.disconnect();
});
