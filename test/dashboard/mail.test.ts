import test from 'ava';
import { addMember } from '#test/support/members.ts';
import { startSmtp } from '#test/support/smtp.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { mailProject } from '../email/scene.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, seriousOf, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

const newProject = async () => {
  const { client } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  return { owner, project, at: (path: string) => `${platform().base}/dashboard/projects/${project.id}${path}` };
};

inBrowser('a template is written beside its preview, which runs nothing and marks missing variables', async (t) => {
  t.timeout(longTestMs);
  const { owner, project, at } = await newProject();
  const { page, complaints, close } = await open(at('/mail'));
  await signIn(page, owner);
  await page.getByRole('link', { name: 'signup' }).click();
  const frame = page.frameLocator('iframe');
  await frame.locator('body').waitFor();
  const hostile =
    '<p id="mine">Hello {{nobody}}</p><script>document.title = "ran"</script><img src=x onerror="parent.ran = 1">';
  await page.getByLabel('Text, as HTML').fill(hostile);
  await frame.locator('#mine').waitFor();
  await page.getByRole('alert').getByText('{{nobody}}').waitFor();
  t.not(await page.title(), 'ran');
  t.is(await page.evaluate('typeof globalThis.ran'), 'undefined');
  await page.reload();
  await frame.locator('#mine').waitFor();
  t.is(await page.getByLabel('Text, as HTML').inputValue(), hostile);
  await looksRight(t, page, 'template');
  await page.getByRole('button', { name: 'Save the template' }).click();
  await page.getByText('Saved.').waitFor();
  await page.getByRole('button', { name: 'Back to the usual text' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Back to the usual text' }).click();
  await frame.locator('#mine').waitFor({ state: 'detached' });
  const { body } = await platform().client.call('GET', `/projects/${project.id}/email/templates/signup`, {
    token: owner.token,
  });
  t.true(body.is_default);
  // The script and the picture of the mail were refused, as they must be.
  t.deepEqual(
    seriousOf(complaints).filter((one) => !/sandbox|Content Security Policy|ERR_|404/i.test(one)),
    [],
  );
  await close();
});

inBrowser('the mail server is set, tried step by step, and forgotten', async (t) => {
  t.timeout(longTestMs);
  const { owner, at } = await newProject();
  const smtp = await startSmtp();
  t.teardown(() => smtp.close());
  const { page, complaints, close } = await open(at('/mail'));
  await signIn(page, owner);
  await page.getByText(/No mail server is set/).waitFor();
  await page.getByLabel('Host').fill('127.0.0.1');
  await page.getByLabel('Port').fill(String(smtp.port));
  await page.getByLabel('Sender’s address').fill('shop@example.com');
  await page.getByLabel('Sender’s name').fill('<b>The "Shop"</b>');
  await page.getByRole('button', { name: 'Save the mail server' }).click();
  await page.getByRole('button', { name: 'Try the mail server' }).click();
  await page.getByText(/The server takes mails of yours/).waitFor();
  t.true((await page.locator('.smtp-steps li').count()) >= 3);
  await looksRight(t, page, 'mail');
  await smtp.close();
  await page.getByRole('button', { name: 'Try the mail server' }).click();
  await page.getByText('The server cannot be used like this.').waitFor();
  await page.getByRole('button', { name: 'Forget it' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Forget it' }).click();
  await page.getByText(/No mail server is set/).waitFor();
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('undelivered mails say why, are counted and sent again; what one says is for admins', async (t) => {
  t.timeout(longTestMs);
  let isOpen = false;
  const smtp = await startSmtp({
    onMail: () => (isOpen ? 'take' : { code: 554, text: '5.7.1 <img src=x onerror=alert(1)> \u202E' }),
  });
  t.teardown(() => smtp.close());
  const { project, user, sendTest } = await mailProject(platform(), { port: smtp.port });
  const { page, complaints, close } = await open(`${platform().base}/dashboard/projects/${project.id}/mail?tab=sent`);
  await signIn(page, user);
  await page.getByText('Every mail of the last 30 days was delivered.').waitFor();
  for (const name of ['ada', 'grace', 'mary']) await sendTest(`${name}@example.com`);
  await page.reload();
  const rows = page.getByRole('table', { name: 'Mails' }).getByRole('row');
  await until(async () => (await rows.count()) === 4);
  await rows.getByText('<img src=x onerror=alert(1)>', { exact: false }).first().waitFor();
  await looksRight(t, page, 'mails');
  await page.getByLabel('Recipient').fill('ada');
  await page.getByRole('button', { name: 'Search' }).click();
  await until(async () => (await rows.count()) === 2);
  t.regex(page.url(), /recipient=ada/);
  await rows.nth(1).getByRole('link').click();
  await page.getByText(/attempt 1:/).waitFor();
  await page.getByRole('button', { name: 'Show what it says' }).click();
  await page
    .getByRole('region', { name: 'Text of the mail' })
    .getByText('https://example.com/confirm', { exact: false })
    .waitFor();
  await looksRight(t, page, 'mail-undelivered');
  const developer = await addMember(platform(), project.orgId, 'developer');
  const seen = await open(page.url());
  await signIn(seen.page, developer);
  await seen.page.getByText('What it says is for admins and owners', { exact: false }).waitFor();
  t.is(await seen.page.getByRole('button', { name: 'Show what it says' }).count(), 0);
  await seen.page.getByRole('button', { name: 'Send it again…' }).waitFor();
  await seen.close();
  isOpen = true;
  const before = smtp.mails.length;
  await page.getByRole('button', { name: 'Send it again…' }).click();
  await page.getByRole('button', { name: 'Send them again (1)' }).click();
  await page.getByText('1 of 1 were changed.').waitFor();
  await page.getByRole('button', { name: 'Close' }).click();
  await page.getByText('The mail server took it.').waitFor();
  await page.getByRole('link', { name: 'All mails' }).click();
  await page.getByRole('button', { name: 'Send these again…' }).click();
  await page.getByText('2 mails').waitFor();
  await page.getByRole('button', { name: 'Send them again (2)' }).click();
  await page.getByText('2 of 2 were changed.').waitFor();
  await until(() => smtp.mails.length - before === 3);
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('an integration is connected, turned off and deleted, and its secret is shown masked', async (t) => {
  t.timeout(longTestMs);
  const { owner, project, at } = await newProject();
  const { page, complaints, close } = await open(at('/integrations'));
  await signIn(page, owner);
  await page.getByRole('button', { name: 'Connect stripe' }).click();
  await page.getByText(new RegExp(`/hooks/${project.id}/stripe$`)).waitFor();
  await page.getByLabel('Secret key').fill('sk_test_<b>"very-secret"</b>');
  await page.getByLabel('Secret of its webhook').fill('whsec_0123456789abcdef');
  await looksRight(t, page, 'integration');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: 'Turn off stripe' }).click();
  await page.getByRole('button', { name: 'Turn on stripe' }).waitFor();
  await page.getByRole('button', { name: 'Change stripe' }).click();
  t.false((await page.getByLabel('Secret key').inputValue()).includes('very-secret'));
  await page.getByRole('button', { name: 'Cancel' }).click();
  await looksRight(t, page, 'integrations');
  await page.getByRole('button', { name: 'Delete stripe' }).click();
  await page.getByRole('button', { name: 'Delete the integration' }).click();
  await page.getByRole('button', { name: 'Connect stripe' }).waitFor();
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a viewer sees mails and integrations, and no control that writes', async (t) => {
  t.timeout(longTestMs);
  const { project, at } = await newProject();
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const { page, complaints, close } = await open(at('/mail'));
  await signIn(page, viewer);
  await page.getByText('Admins and owners set the mail server.').waitFor();
  const main = page.getByRole('main');
  t.is(await main.getByRole('button').count(), 0);
  await page.getByRole('link', { name: 'Mails' }).click();
  await page.getByText('Every mail of the last 30 days was delivered.').waitFor();
  t.is(await main.getByRole('button', { name: /again/ }).count(), 0);
  await page.goBack();
  await page.getByRole('link', { name: 'signup' }).click();
  await page.frameLocator('iframe').locator('body').waitFor();
  await until(async () => page.getByLabel('Subject').isDisabled());
  t.is(await main.getByRole('button').count(), 0);
  await page.goto(at('/integrations'));
  await page.getByText('Admins and owners connect other services.').waitFor();
  await page.getByRole('cell', { name: 'stripe' }).waitFor();
  t.is(await main.getByRole('button').count(), 0);
  t.deepEqual(seriousOf(complaints), []);
  await close();
});
