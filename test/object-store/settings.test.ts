import { execFileSync } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { Readable } from 'node:stream';
import test from 'ava';
import { ConfigError, loadConfig } from '#lib/config.ts';
import { openStoragePlace } from '#lib/object-store/open-object-store.ts';
import { openUploads } from '#lib/resumable/open-uploads.ts';
import { startS3Server } from '#test/support/s3-server.ts';
import { temporaryFolder } from './stores.ts';

const configOf = (env: Record<string, string>) =>
  loadConfig({
    DATABASE_URL: 'postgres://localhost/x',
    REDIS_URL: 'redis://localhost',
    PLINTH_SECRET_KEYS: `1:${Buffer.alloc(32).toString('base64')}`,
    ...env,
  });

const one = { maxBytes: 9, signal: new AbortController().signal };

const upload = { id: '00000000-0000-7000-8000-000000000000', key: 'a/c', size: 5, metadata: {}, context: {} };

test('without settings the bytes lie below DATA_DIR/storage', async (t) => {
  const folder = await temporaryFolder(t);
  const place = await openStoragePlace(configOf({ DATA_DIR: folder }));
  await place.store.write('a/b', Readable.from(['x']), one);
  await (await openUploads(place)).create({ ...upload, createdAt: 0, expiresAt: 0 });
  const made = await readdir(path.join(folder, 'storage'));
  t.deepEqual(made.toSorted(), ['objects', 'unfinished', 'uploads']);
});

test('with PLINTH_STORAGE=s3 they lie in the bucket that the settings name', async (t) => {
  const { settings, objects, uploads } = await startS3Server(t);
  const place = await openStoragePlace(
    configOf({
      PLINTH_STORAGE: 's3',
      PLINTH_S3_ENDPOINT: settings.endpoint,
      PLINTH_S3_REGION: settings.region,
      PLINTH_S3_BUCKET: settings.bucket,
      PLINTH_S3_ACCESS_KEY_ID: settings.accessKeyId,
      PLINTH_S3_SECRET_ACCESS_KEY: settings.secretAccessKey,
      PLINTH_S3_FORCE_PATH_STYLE: 'on',
    }),
  );
  await place.store.write('a/b', Readable.from(['x']), one);
  await (await openUploads(place)).create({ ...upload, createdAt: 0, expiresAt: 0 });
  t.deepEqual([...objects.keys()].length, 2);
  t.is(uploads.size, 1);
});

test('incomplete settings of S3 stop the start', async (t) => {
  const wrong = [
    { PLINTH_STORAGE: 's3' },
    { PLINTH_STORAGE: 's3', PLINTH_S3_BUCKET: 'files', PLINTH_S3_ACCESS_KEY_ID: 'x' },
    { PLINTH_STORAGE: 's3', PLINTH_S3_BUCKET: 'No such form' },
    { PLINTH_STORAGE: 'tape' },
  ];
  for (const env of wrong)
    await t.throwsAsync(async () => openStoragePlace(configOf(env)), { instanceOf: ConfigError });
});

test('the AWS client is loaded by those who open a bucket of S3 only', (t) => {
  const script = `
    const { createRequire } = await import('node:module');
    const isLoaded = () => Object.keys(createRequire(process.cwd() + '/').cache).some((file) => file.includes('@aws-sdk'));
    await import('#api/storage/open.ts');
    const before = isLoaded();
    await import('#lib/object-store/s3-client.ts');
    console.log(before, isLoaded());`;
  const args = ['--no-node-snapshot', '--input-type=module', '--eval', script];
  const said = execFileSync(process.execPath, args, { cwd: path.join(import.meta.dirname, '../..'), encoding: 'utf8' });
  t.is(said, 'false true\n');
});
