import { build, stop } from 'esbuild';
import test from 'ava';
import { serve } from '#test/support/serve.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { dataOf, useStorage } from './storage-scene.ts';

const { admin, project, platform, user, sql } = useStorage(test);
const visit = useBrowser();

/** As a page of a user of Uppy would have it; three chunks, of which the page breaks off the first upload. */
const page = `
import Uppy from '@uppy/core';
import Tus from '@uppy/tus';
globalThis.send = ({ endpoint, headers, bucketName, objectName, size, stopAfter }) =>
  new Promise((resolve, reject) => {
    const uppy = new Uppy({ autoProceed: false });
    uppy.use(Tus, { endpoint, headers, chunkSize: 500000, allowedMetaFields: ['bucketName', 'objectName', 'contentType', 'cacheControl'] });
    const data = new Blob([new Uint8Array(size).map((_, i) => (i * 7) % 251)], { type: 'image/png' });
    const id = uppy.addFile({ name: 'picture.png', type: 'image/png', data, meta: { bucketName, objectName, contentType: 'image/png' } });
    uppy.on('upload-progress', (file, { bytesUploaded }) => {
      if (stopAfter !== undefined && bytesUploaded >= stopAfter) {
        uppy.pauseResume(id);
        resolve({ paused: bytesUploaded });
      }
    });
    uppy.upload().then(({ successful, failed }) => resolve({ successful: successful.length, errors: failed.map(({ error }) => error) }), reject);
  });
`;

inBrowser('Uppy’s tus plugin uploads from another origin, goes on after a reload, and shows refusals', async (t) => {
  const { outputFiles } = await build({
    stdin: { contents: page, resolveDir: import.meta.dirname },
    bundle: true,
    write: false,
    format: 'iife',
  });
  // Its service would keep the process of this test alive.
  await stop();
  const [script = { text: '' }] = outputFiles;
  const site = await serve(t, (request, response) => {
    const isScript = request.url === '/page.js';
    response.setHeader('Content-Type', isScript ? 'text/javascript' : 'text/html');
    response.end(isScript ? script.text : '<!doctype html><title>upload</title><script src="/page.js"></script>');
  });
  const of = project();
  await sql(
    of,
    `create policy uppy on storage.objects for all to authenticated
       using (owner_id = auth.uid()) with check (owner_id = auth.uid() and (storage.foldername(name))[1] = 'uppy')`,
  );
  const { token } = await user();
  const size = 1_700_000;
  const order = {
    endpoint: `${platform().base}/p/${of.ref}/storage/v1/upload/resumable`,
    headers: { apikey: of.publishableKey, authorization: `Bearer ${token}` },
    bucketName: of.slug,
    size,
  };
  const { page: tab, close } = await visit(site);
  const send = (more: object) => tab.evaluate(`send(${JSON.stringify({ ...order, ...more })})`);

  t.like(await send({ objectName: 'uppy/broken.png', stopAfter: 500_000 }), { paused: 500_000 });
  const started: string[] = [];
  await tab.reload();
  tab.on('request', (request) => started.push(request.method()));
  t.deepEqual(await send({ objectName: 'uppy/broken.png' }), { successful: 1, errors: [] });
  t.false(started.includes('POST'), 'the upload that the page had begun goes on');
  const info = dataOf(await admin().from(of.slug).info('uppy/broken.png'));
  t.like(info, { size, contentType: 'image/png' });
  const back = Buffer.from(await dataOf(await admin().from(of.slug).download('uppy/broken.png')).arrayBuffer());
  t.true(back.equals(Buffer.from(new Uint8Array(size).map((_, i) => (i * 7) % 251))));

  const refused = (await send({ objectName: 'elsewhere/x.png', size: 10 })) as { errors: string[] };
  t.regex(refused.errors[0] ?? '', /No policy allows this/);
  await close();
});
