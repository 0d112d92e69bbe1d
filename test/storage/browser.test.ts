import type { ExecutionContext } from 'ava';
import test from 'ava';
import { serve } from '#test/support/serve.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { dataOf, useStorage } from './storage-scene.ts';

const { admin, newBucket, platform, project } = useStorage(test);
const visit = useBrowser();

/** A site that shows files, and counts scripts that say that they ran. */
const site = async (t: ExecutionContext, page: string) => {
  const ran: string[] = [];
  const base = await serve(t, (request, response) => {
    const { pathname, search } = new URL(request.url ?? '/', 'http://site');
    if (pathname === '/ran') ran.push(search);
    response.setHeader('Access-Control-Allow-Origin', '*');
    response.setHeader('Content-Type', 'text/html');
    response.end(pathname === '/' ? page.replaceAll('SITE', base) : '');
  });
  return { base, ran };
};

inBrowser('scripts in stored SVG and HTML do not run, however a page shows them or a person opens them', async (t) => {
  const bucket = await newBucket({ public: true });
  const beacon = await site(t, '');
  const script = (from: string): string => `fetch('${beacon.base}/ran?${from}', { mode: 'no-cors' })`;
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="${script('onload')}"><script>${script('svg')}</script></svg>`;
  const html = `<!doctype html><title>a page</title><script>${script('html')}</script>`;
  const files = {
    'a.svg': ['image/svg+xml', svg],
    'a.html': ['text/html', html],
    'a.txt': ['text/plain', html],
  } as const;
  for (const [name, [contentType, text]] of Object.entries(files)) {
    dataOf(await admin().from(bucket).upload(name, text, { contentType }));
  }
  const urlOf = (name: string): string => admin().from(bucket).getPublicUrl(name).data.publicUrl;
  const page = await site(
    t,
    `<!doctype html><title>files</title><img src="${urlOf('a.svg')}"><object data="${urlOf('a.svg')}"></object>
     <embed src="${urlOf('a.svg')}"><iframe src="${urlOf('a.svg')}"></iframe><iframe src="${urlOf('a.html')}"></iframe>
     <iframe src="${urlOf('a.txt')}"></iframe><script>${script('control')}</script>`,
  );
  const { page: tab, close } = await visit(page.base);
  for (const name of ['a.svg', 'a.html']) {
    const download = tab.waitForEvent('download');
    // Chromium gives up the navigation in favour of the download.
    await tab.goto(urlOf(name)).catch(() => undefined);
    await (await download).cancel();
  }
  await tab.goto(urlOf('a.txt'));
  t.is(await tab.evaluate('document.contentType'), 'text/plain');
  await close();
  t.deepEqual(beacon.ran, ['?control']);
  t.true(urlOf('a.svg').startsWith(`${platform().base}/p/${project().ref}/`));
});
