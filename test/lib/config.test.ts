import { randomBytes } from 'node:crypto';
import test from 'ava';
import { ConfigError, loadConfig, unknownSettings } from '#lib/config.ts';

const min = {
  DATABASE_URL: 'postgres://u:p@127.0.0.1:5432/plinth',
  REDIS_URL: 'redis://127.0.0.1:6379',
  PLINTH_SECRET_KEYS: `1:${randomBytes(32).toString('base64')}`,
};

test('the least settings are enough, and the rest has the documented defaults', (t) => {
  t.like(loadConfig(min), { PORT: 3000, HOST: '127.0.0.1', DATA_DIR: '.data', DRAIN_MS: 10_000, WORKERS: 2 });
  t.is(loadConfig(min).SANDBOX, undefined);
});

test('an empty value counts as not set', (t) => {
  t.is(loadConfig({ ...min, PORT: '', SANDBOX: '', PLINTH_BASE_URL: '' }).PORT, 3000);
});

test('every missing and every bad setting is named at once', (t) => {
  const error = t.throws(() => loadConfig({ PORT: '70000', SANDBOX: 'none', PLINTH_RATE_LIMITS: 'maybe' }), {
    instanceOf: ConfigError,
  });
  for (const line of ['DATABASE_URL is not set', 'REDIS_URL is not set', 'PLINTH_SECRET_KEYS is not set'])
    t.true(error.message.includes(line), line);
  for (const name of ['PORT', 'SANDBOX', 'PLINTH_RATE_LIMITS']) t.regex(error.message, new RegExp(`${name}: `));
});

const bad: Record<string, string> = {
  PORT: 'three',
  DATABASE_URL: 'mysql://127.0.0.1/x',
  REDIS_URL: '127.0.0.1:6379',
  PLINTH_SECRET_KEYS: '1:tooshort',
  PLINTH_OPS_TOKEN: 'short',
  PLINTH_REDIS_PREFIX: 'a{b}',
  DRAIN_MS: '-1',
  WORKERS: '1.5',
  WORKER_QUEUES: 'functions,,system',
  PUBLIC_DOMAIN: 'https://example.org',
  PLINTH_BASE_URL: 'example.org',
  PLINTH_DATABASE_POOL: '1e9',
  PLINTH_TENANT_CONNECTIONS: 'Infinity',
  PLINTH_DELETED_PROJECT_DAYS: 'NaN',
};

for (const [name, value] of Object.entries(bad)) {
  test(`${name}=${value} stops the start with its name`, (t) => {
    const error = t.throws(() => loadConfig({ ...min, [name]: value }), { instanceOf: ConfigError });
    t.true(error.message.includes(`${name}: `), error.message);
  });
}

test('a bad secret is not shown', (t) => {
  const ring = `1:${randomBytes(31).toString('base64')}`;
  const error = t.throws(() =>
    loadConfig({ ...min, PLINTH_SECRET_KEYS: ring, DATABASE_URL: 'mysql://u:hunter2@127.0.0.1/x' }),
  );
  t.false(error.message.includes(ring.slice(2, 12)));
  t.false(error.message.includes('hunter2'));
});

test('a misspelt PLINTH_ name is told, names of others are not', (t) => {
  const env = { PLINTH_RATE_LIMIT: 'off', PLINTH_TEST_BASE_URL: 'x', PATH: 'x', PLINTH_LOG_LEVEL: 'info' };
  t.deepEqual(unknownSettings(env), ['PLINTH_RATE_LIMIT']);
});
