import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { useWebBuild } from '#test/support/web-build.ts';
import { fits, inBrowser, picture, signIn, useBrowser } from './browser.ts';

const platform = usePlatform(test, { settings: useWebBuild(test) });
const visit = useBrowser();

inBrowser('a mail is found in the mailbox and shown as its reader sees it, on a phone, too', async (t) => {
  const { client, base, db } = platform();
  const user = await client.signUp();
  await client.call('POST', '/auth/forgot', { body: { email: user.email } });
  await until(async () => (await db.query(`select from platform_mail where status = 'kept'`)).length === 1);
  const { page, complaints, close } = await visit(`${base}/ops/mail`, { viewport: { width: 390, height: 800 } });
  await page.getByLabel('Token').waitFor();
  // The browser notes the 401 by which the page learns that it has no session yet.
  complaints.length = 0;
  await signIn(page);
  await page.getByRole('link', { name: 'Reset your password' }).waitFor();
  t.true(await fits(page));
  await picture(page, 'mails');
  await page.getByRole('link', { name: 'Reset your password' }).click();
  const shown = page.frameLocator('iframe').getByRole('link', { name: 'Set a new password' });
  await shown.waitFor();
  t.regex((await shown.getAttribute('href')) ?? '', /\/plinth_reset_/);
  await page.getByText('There is no mail server for it').waitFor();
  t.true(await fits(page));
  await picture(page, 'mail');
  await page.getByRole('button', { name: 'Send it' }).click();
  await page.getByRole('alert').getByText('PLINTH_SMTP_URL names one').waitFor();
  // The browser notes the 409, too.
  t.deepEqual(
    complaints.filter((complaint) => !complaint.includes('409')),
    [],
  );
  await close();
});

inBrowser('the list is narrowed to what failed', async (t) => {
  const { base } = platform();
  const { page, close } = await visit(`${base}/ops/mail`);
  await signIn(page);
  await page.getByLabel('Status').selectOption('failed');
  await page.getByText('No mail is failed.').waitFor();
  t.true(page.url().endsWith('/ops/mail?status=failed'));
  await close();
});
