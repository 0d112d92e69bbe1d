import type { Page } from 'playwright-core';
import test from 'ava';
import { optionalTestEnv } from '#test/support/env.ts';
import { createOrganization, tokenOfLink } from '#test/support/organization.ts';
import { usePlatform } from '#test/support/platform.ts';
import { linkTokenTo } from '#test/support/platform-mail.ts';
import { askForReset } from '#test/support/reset.ts';
import { fits, inBrowser, useBrowser } from '../ops/browser.ts';

const platform = usePlatform(test, { worker: false });
const visit = useBrowser();

const phone = { viewport: { width: 360, height: 740 } };

const picture = async (page: Page, name: string): Promise<void> => {
  const folder = optionalTestEnv('PLINTH_TEST_PICTURES');
  if (folder !== undefined) await page.screenshot({ path: `${folder}/account-${name}.png` });
};

inBrowser('a password is reset by keyboard alone, without a script', async (t) => {
  const { client, base } = platform();
  const user = await client.signUp();
  await askForReset(platform(), user.email);
  const token = await linkTokenTo(platform(), user.email, 'reset-password');
  const { page, complaints, hosts, close } = await visit(`${base}/reset-password/${token}`, {
    javaScriptEnabled: false,
  });
  await picture(page, 'reset');
  await page.keyboard.type('a new password');
  await page.keyboard.press('Tab');
  await page.keyboard.type('a new passwort');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('not the same').waitFor();
  await picture(page, 'reset-refused');
  await page.getByLabel('New password').fill('a new password');
  await page.getByLabel('Repeat the password').fill('a new password');
  await page.getByRole('button', { name: 'Set the password' }).click();
  await page.getByRole('heading', { name: 'Your password is set' }).waitFor();
  await picture(page, 'reset-done');
  const body = { email: user.email, password: 'a new password' };
  t.is((await client.call('POST', '/auth/login', { body })).status, 200);
  t.deepEqual([...hosts], [new URL(base).host]);
  t.deepEqual(
    complaints.filter((complaint) => !complaint.includes('400')),
    [],
  );
  await close();
});

inBrowser('an invite is accepted on a phone, light and dark', async (t) => {
  const { base } = platform();
  const org = await createOrganization(platform());
  const longName =
    'The organization with a name that goes on for as long as a name of an organization may go on, it may';
  await org.as('owner', 'PATCH', '/team/orgs/current', { body: { org_name: longName.slice(0, 100) } });
  const email = 'a.guest.with.a.rather.long.address.in.the.mail@some-department.example.com';
  const { body } = await org.as('owner', 'POST', '/team/invite', { body: { email, role: 'admin' } });
  const url = `${base}/invite/${tokenOfLink(body.invite_link)}`;
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const [size, options] of Object.entries({ wide: {}, phone })) {
      const { page, complaints, close } = await visit(url, { ...options, colorScheme });
      t.true(await fits(page), `${size} ${colorScheme}`);
      await picture(page, `invite-${size}-${colorScheme}`);
      t.deepEqual(complaints, []);
      await close();
    }
  }
  const { page, close } = await visit(url, { ...phone, colorScheme: 'dark' });
  await page.getByLabel('Your name').fill('Grace');
  await page.getByLabel('Choose a password').fill('a good password');
  await page.getByLabel('Repeat the password').fill('a good password');
  await page.getByRole('button', { name: 'Create account and join' }).click();
  await page.getByRole('heading', { name: 'Welcome' }).waitFor();
  t.true(await fits(page));
  await picture(page, 'invite-done-dark');
  await close();
  const late = await visit(url, phone);
  await late.page.getByRole('heading', { name: 'You have accepted already' }).waitFor();
  await picture(late.page, 'invite-late');
  await late.close();
});
