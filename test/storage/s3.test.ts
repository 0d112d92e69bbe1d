import { createClient } from '@supabase/supabase-js';
import test from 'ava';
import { startPlatform } from '#test/support/platform.ts';
import { startS3Server } from '#test/support/s3-server.ts';
import { dataOf } from './storage-scene.ts';

test('with S3 as the store, storage-js works the same, and a store that fails leaves nothing half', async (t) => {
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
    },
  });
  t.teardown(() => platform.stop());
  const { client, base } = platform;
  const project = await client.createProject(await client.signUp());
  const files = createClient(`${base}/p/${project.ref}`, project.key).storage.from(project.slug);
  const content = 'x'.repeat(12 * 2 ** 20);

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
    s3.fault(/^PUT /, fault, 100);
    const { error } = await files.upload(`failed-${fault}`, 'x');
    t.true([503, 507].includes((error as { status?: number } | null)?.status ?? 0), `${fault}: ${error?.message}`);
    s3.fault(/^PUT /, fault, 0);
    t.is((await files.download(`failed-${fault}`)).error?.message, 'No such object.');
  }
  t.is(s3.objects.size, 3);
  s3.fault(/^GET /, 500, 100);
  const { error } = await files.download('a/small');
  t.is((error as { status?: number } | null)?.status, 503, error?.message);
});
