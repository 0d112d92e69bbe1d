import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { useWebBuild } from '#test/support/web-build.ts';
import { inBrowser, signIn, useBrowser } from './browser.ts';

const platform = usePlatform(test, { worker: false, settings: useWebBuild(test) });
const visit = useBrowser();

inBrowser('a type without a worker is shown as that, and not as rebuilt', async (t) => {
  const { page, close } = await visit(`${platform().base}/ops`);
  await signIn(page);
  const card = page.getByRole('article', { name: 'function.invoke' });
  await card.getByText('no worker', { exact: true }).waitFor();
  await page
    .getByText(/No worker is alive for .*function\.invoke/)
    .first()
    .waitFor();
  t.is(await page.getByText(/rebuil/i).count(), 0);
  await close();
});
