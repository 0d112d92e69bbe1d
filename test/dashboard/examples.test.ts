import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import test from 'ava';
import { longTestMs } from '#test/support/time-outs.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();
const folder = mkdtempSync(path.join(os.tmpdir(), 'plinth-example-'));
test.after.always(() => rmSync(folder, { recursive: true, force: true }));

inBrowser('a new user makes an example with one click, and its program runs as it is shown', async (t) => {
  t.timeout(longTestMs);
  const user = await platform().client.signUp();
  const { page, complaints, close } = await open(`${platform().base}/dashboard`);
  await signIn(page, user);
  await page.getByRole('button', { name: 'Make the to-do app with sign-in' }).waitFor();
  await looksRight(t, page, 'examples');
  await page.getByRole('button', { name: 'Make the webhook receiver' }).click();
  const program = page.getByRole('region', { name: 'Program in javascript' });
  await program.waitFor();
  await looksRight(t, page, 'example-made');
  const code = (await program.textContent()) ?? '';
  t.notRegex(code, /\{\{/);
  const file = path.join(folder, 'client.mjs');
  writeFileSync(file, code);
  const { stdout } = await promisify(execFile)(process.execPath, [file]);
  t.regex(stdout, /order\.paid/);
  await page.getByRole('button', { name: 'curl' }).click();
  await page.getByRole('region', { name: 'Program in curl' }).waitFor();
  await page.getByRole('button', { name: 'Open the project' }).click();
  await page.getByText('First steps').waitFor();
  t.deepEqual(
    complaints.filter((complaint) => !/status of 401/.test(complaint)),
    [],
  );
  await close();
});

inBrowser('an example that could not be finished shows the keys and goes on', async (t) => {
  t.timeout(longTestMs);
  const user = await platform().client.signUp();
  const { page, close } = await open(`${platform().base}/dashboard`);
  await signIn(page, user);
  let fails = true;
  await page.route('**/examples/report', (route) => (fails ? route.abort('connectionreset') : route.continue()));
  await page.getByRole('button', { name: 'Make the nightly report' }).click();
  await page.getByRole('alert').getByText('The platform cannot be reached.').waitFor();
  await page.getByText(/^plinth_sk_/).waitFor();
  fails = false;
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByRole('region', { name: 'Program in javascript' }).waitFor();
  t.is(await page.getByRole('alert').count(), 0);
  await close();
});
