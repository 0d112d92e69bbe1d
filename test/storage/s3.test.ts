import { request } from 'node:http';
import { createClient } from '@supabase/supabase-js';
import test, { type ExecutionContext } from 'ava';
import { startPlatform } from '#test/support/platform.ts';
import { startS3Server } from '#test/support/s3-server.ts';
import { longTestMs, patienceMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { dataOf } from './storage-scene.ts';

const mib = 2 ** 20;

/** A platform of its own whose files lie in a bucket of S3. */
const openScene = async (t: ExecutionContext, more: Record<string, string> = {}) => {
  const s3 = await startS3Server(t);
  const { endpoint, bucket, region, accessKeyId, secretAccessKey } = s3.settings;
  const platform = await startPlatform({
    settings: {
      PLINTH_STORAGE: 's3',
      PLINTH_S3_ENDPOINT: endpoint,
      PLINTH_S3_BUCKET: bucket,
      PLINTH_S3_REGION: region,
      PLINTH_S3_ACCESS_KEY_ID: accessKeyId,
      PLINTH_S3_SECRET_ACCESS_KEY: secretAccessKey,
      PLINTH_S3_FORCE_PATH_STYLE: 'on',
      ...more,
    },
  });
  t.teardown(() => platform.stop());
  const { client, base } = platform;
  const project = await client.createProject(await client.signUp());
  const root = `${base}/p/${project.ref}`;
  return { s3, client, project, root, files: createClient(root, project.key).storage.from(project.slug) };
};

const statusOf = (error: unknown): number => (error as { status?: number } | null)?.status ?? 0;

test('with S3 as the store, storage-js works the same, and a store that fails leaves nothing half', async (t) => {
  const { s3, project, files } = await openScene(t);
  const content = 'x'.repeat(12 * mib);

  dataOf(await files.upload('a/large', new Blob([content])));
  dataOf(await files.upload('a/small', 'hello', { contentType: 'text/plain' }));
  dataOf(await files.copy('a/large', 'copy'));
  dataOf(await files.move('a/large', 'moved'));
  for (const name of ['copy', 'moved']) t.is((await dataOf(await files.download(name)).text()).length, content.length);
  const { signedUrl } = dataOf(await files.createSignedUrl('a/small', 60));
  t.is(await (await fetch(signedUrl, { headers: { range: 'bytes=1-3' } })).text(), 'ell');
  t.is(s3.objects.size, 3);
  t.true([...s3.objects.keys()].every((key) => key.startsWith(`${project.id}/`)));

  for (const fault of [500, 503, 507] as const) {
    s3.fault(/^PUT /, fault, 4);
    const { error } = await files.upload(`failed-${fault}`, 'x');
    t.is(statusOf(error), fault === 507 ? 507 : 503, `${fault}: ${error?.message}`);
    t.is((await files.download(`failed-${fault}`)).error?.message, 'No such object.');
  }
  t.is(s3.objects.size, 3);
  s3.fault(/^GET /, 500, 4);
  const { error } = await files.download('a/small');
  t.is(statusOf(error), 503, error?.message);
  t.is(await dataOf(await files.download('a/small')).text(), 'hello');
});

test('S3 that hangs, loses a part or cuts an answer: the request ends with an error, and nothing half is a file', async (t) => {
  t.timeout(longTestMs);
  const { s3, project, root, files } = await openScene(t, { PLINTH_S3_TIMEOUT_MS: String(patienceMs / 25) });
  const content = 'x'.repeat(12 * mib);
  dataOf(await files.upload('kept', new Blob([content])));

  s3.fault(/^PUT /, 'hang', 4);
  s3.fault(/^GET .*\/files\/\w/, 'hang', 4);
  const hanging = await Promise.all([files.upload('hanging', 'x'), files.download('kept')]);
  t.deepEqual(
    hanging.map(({ error }) => statusOf(error)),
    [503, 503],
  );

  s3.fault(/^POST .*uploadId/, 'lost part');
  t.is(statusOf((await files.upload('kept', new Blob(['y'.repeat(12 * mib)]), { upsert: true })).error), 503);
  t.is(await dataOf(await files.download('kept')).text(), content, 'what was there stays');

  s3.fault(/^GET .*\/files\/\w/, 'cut body');
  const url = `${root}/storage/v1/object/${project.slug}/kept`;
  const cut = await fetch(url, { headers: { apikey: project.key } });
  await t.throwsAsync(cut.arrayBuffer(), undefined, 'a shorter file would be taken for the whole');

  const gone = request(url.replace(/kept$/, 'gone'), {
    method: 'POST',
    headers: { apikey: project.key, 'content-type': 'text/plain', 'content-length': content.length },
  });
  gone.on('error', () => undefined);
  gone.write(content.slice(0, content.length * 0.99));
  await until(() => s3.uploads.size > 0);
  gone.destroy();
  await until(() => s3.uploads.size === 0);
  for (const name of ['hanging', 'gone']) t.is((await files.download(name)).error?.message, 'No such object.');
  t.is(s3.objects.size, 1);
});

test('readiness names a store that does not answer, and the API goes on serving all else', async (t) => {
  t.timeout(longTestMs);
  const { s3, client } = await openScene(t);
  const degraded = async () => {
    const { status, body } = await client.call('GET', '/readyz');
    const { storage, ...others } = body.dependencies as Record<string, boolean>;
    t.deepEqual([status, body.ready, others], [200, true, { postgres: true, redis: true }]);
    t.deepEqual(body.degraded, storage === true ? [] : ['storage']);
    return !storage;
  };
  for (const fault of ['hang', 500] as const) {
    await until(async () => !(await degraded()));
    s3.fault(/^HEAD /, fault, 1000);
    await until(degraded);
    s3.fault(/^HEAD /, fault, 0);
  }
  const requested = (): number => s3.requests.filter((line) => line.startsWith('HEAD ')).length;
  const before = requested();
  await Promise.all(Array.from({ length: 20 }, degraded));
  t.true(requested() - before <= 4, 'probes share one check and its three repetitions');
});
