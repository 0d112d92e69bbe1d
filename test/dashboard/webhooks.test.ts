import test from 'ava';
import { addMember } from '#test/support/members.ts';
import { receiverFor, withStatus } from '#test/support/receiver.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

const hostile = `<img src=x onerror=alert(1)> "q" \u202Egnp 🦄`;

const setUp = async () => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const base = `/projects/${project.id}`;
  const ask = (method: string, path: string, body?: unknown) =>
    client.call(method, `${base}${path}`, { token: user.token, ...(body !== undefined && { body }) });
  await ask('POST', '/db/query', { sql: 'create table orders (id int primary key, note text)' });
  const visit = (at = '/webhooks') => open(`${platform().base}/dashboard${base}${at}`);
  return { client, user, project, base, ask, visit };
};

inBrowser('a failing webhook is found, its answer read, and what it missed is sent once more', async (t) => {
  t.timeout(longTestMs);
  const receiver = await receiverFor(t);
  receiver.answer(withStatus(500, { 'content-type': 'text/html' }, '<script>alert("broken")</script>'));
  const { user, project, ask, visit } = await setUp();
  const { page, complaints, close } = await visit();
  await signIn(page, user);
  await page.getByText(/No webhook yet/).waitFor();
  await page.getByRole('button', { name: 'New webhook' }).click();
  await page.getByLabel('Name (optional)').fill(hostile);
  await page.getByLabel('Address').fill(`${receiver.url}/hook`);
  await page.getByRole('combobox', { name: 'Event to add' }).fill('table.orders.INSERTED');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Create the webhook' }).click();
  await page
    .getByRole('alert')
    .getByText(/did you mean table\.orders\.INSERT/)
    .waitFor();
  await looksRight(t, page, 'webhook-new');
  await page.getByLabel('Events, one a line').fill('table.orders.INSERT');
  await page.getByRole('button', { name: 'Create the webhook' }).click();
  await page.getByText(/^whsec_/).waitFor();
  const secret = await page.getByText(/^whsec_/).innerText();
  await page.getByRole('button', { name: 'I have saved it' }).click();
  await page.getByRole('link', { name: hostile }).waitFor();
  t.false((await page.content()).includes(secret));

  await ask('POST', '/db/query', { sql: `insert into orders values (1, '12345678901234567890'), (2, '<b>')` });
  await receiver.when(2);
  const failed = async (): Promise<unknown[]> =>
    (await ask('GET', '/integrations/deliveries?status=failed')).body.deliveries as unknown[];
  await until(async () => (await failed()).length === 2);
  // The platform would try again by itself; here a person does.
  await platform().db.query(
    `update webhook_deliveries set next_attempt_at = now() + interval '1 hour' where project_id = $1`,
    [project.id],
  );
  const tried = receiver.received.length;
  await page.getByRole('link', { name: 'Deliveries' }).first().click();
  await page.getByText('500 in').first().waitFor();
  await page.getByLabel('Status').selectOption('failed');
  await looksRight(t, page, 'webhook-deliveries');
  await page.getByRole('row').nth(1).getByRole('link').click();
  await page.getByRole('region', { name: 'Answer' }).getByText('<script>').waitFor();
  await page.getByRole('region', { name: 'Request' }).getByText('table.orders.INSERT').first().waitFor();
  await looksRight(t, page, 'webhook-delivery');

  receiver.answer(withStatus(204));
  await page.getByRole('button', { name: 'Send it once more' }).click();
  await page.getByRole('status').getByText('success').waitFor();
  t.is(receiver.received.length, tried + 1);

  await page.getByRole('link', { name: 'All deliveries of the webhook' }).click();
  await page.getByRole('link', { name: 'Replay' }).click();
  await page.getByRole('button', { name: 'Count them' }).click();
  await page.getByText('1 delivery found. Nothing is sent yet.').waitFor();
  await looksRight(t, page, 'webhook-replay');
  t.is(receiver.received.length, tried + 1);
  await page.getByRole('button', { name: 'Send 1 once more' }).click();
  await page.getByText('1 are sent once more.').waitFor();
  await receiver.when(tried + 2);
  await until(async () => (await failed()).length === 0);
  t.is(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size, 2);
  t.deepEqual(
    complaints.filter((complaint) => !/status of 40[01]/.test(complaint)),
    [],
  );
  await close();
});

inBrowser('a webhook is tested, changed, stopped, given another secret and deleted', async (t) => {
  t.timeout(longTestMs);
  const receiver = await receiverFor(t);
  const { user, ask, visit } = await setUp();
  const made = await ask('POST', '/integrations/webhooks', { url: receiver.url, events: ['db.*'], name: 'orders' });
  const at = `/integrations/webhooks/${String(made.body.id)}`;
  const { page, close } = await visit();
  await signIn(page, user);
  await page.getByRole('link', { name: 'orders' }).click();
  await page.getByRole('button', { name: 'Send a test' }).click();
  await page.getByText('It was taken').waitFor();
  await looksRight(t, page, 'webhook');
  receiver.answer(withStatus(503));
  await page.getByRole('button', { name: 'Send a test' }).click();
  await page.getByText(/It was not taken/).waitFor();
  await page.getByRole('button', { name: 'Stop sending' }).click();
  await page.getByRole('button', { name: 'Begin to send' }).waitFor();
  t.like((await ask('GET', at)).body, { is_active: false });
  await page.getByLabel('Only if').fill(`data.note = 'x'`);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.').waitFor();
  t.like((await ask('GET', at)).body, { filter: `data.note = 'x'`, is_active: false, name: 'orders' });
  await page.getByRole('button', { name: 'Replace the secret' }).click();
  await page.getByRole('button', { name: 'Replace it' }).click();
  await page.getByText(/^whsec_/).waitFor();
  await page.getByRole('button', { name: 'I have saved it' }).click();
  await page.getByRole('button', { name: 'Delete the webhook' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete the webhook' }).click();
  await page.getByText(/No webhook yet/).waitFor();
  t.is((await ask('GET', at)).status, 404);
  await close();
});

inBrowser('the catalogue lists events, and one of the project’s own is emitted to what subscribes to it', async (t) => {
  t.timeout(longTestMs);
  const receiver = await receiverFor(t);
  const { user, ask, visit } = await setUp();
  await ask('POST', '/integrations/webhooks', { url: receiver.url, events: ['order.paid'] });
  const { page, close } = await visit('/webhooks?tab=events');
  await signIn(page, user);
  await page.getByRole('cell', { name: 'db.insert' }).waitFor();
  await looksRight(t, page, 'webhook-events');
  await page.getByLabel('Name of the event').fill('db.insert');
  await page.getByLabel('Data (JSON)').fill('{ "order": 7 }');
  await page.getByRole('button', { name: 'Emit it' }).click();
  await page.getByRole('alert').waitFor();
  t.is(await page.getByLabel('Data (JSON)').inputValue(), '{ "order": 7 }');
  await page.getByLabel('Name of the event').fill('order.paid');
  await page.getByRole('button', { name: 'Emit it' }).click();
  await page.getByText('order.paid was emitted.').waitFor();
  const [got] = await receiver.when(1);
  t.like(JSON.parse(got?.body.toString() ?? '') as object, { event: 'order.paid', data: { order: 7 } });
  await close();
});

inBrowser('a viewer reads webhooks and deliveries, and is offered no change', async (t) => {
  t.timeout(longTestMs);
  const { project, ask, visit } = await setUp();
  await ask('POST', '/integrations/webhooks', { url: 'http://127.0.0.1:9/', events: ['db.*'], name: 'orders' });
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const { page, close } = await visit();
  await signIn(page, viewer);
  await page.getByRole('link', { name: 'orders' }).waitFor();
  const write = /New|Emit|Send|Stop|Replace|Delete|Save|Count/;
  for (const tab of ['Webhooks', 'Deliveries', 'Events']) {
    await page.getByRole('navigation', { name: 'Parts of the webhooks' }).getByRole('link', { name: tab }).click();
    t.is(await page.getByRole('button', { name: write }).count(), 0, tab);
  }
  await page.getByRole('navigation', { name: 'Parts of the webhooks' }).getByRole('link', { name: 'Webhooks' }).click();
  await page.getByRole('link', { name: 'orders' }).click();
  await page.getByText('Developers, admins and owners change webhooks.').waitFor();
  t.is(await page.getByRole('button', { name: write }).count(), 0);
  await page.getByRole('link', { name: 'Replay' }).click();
  await page.getByText('Developers, admins and owners send deliveries once more.').waitFor();
  await close();
});
