import test from 'ava';
import { createPlatformMail, noticeToAdmins } from '#domain/mail/mail.ts';
import { opsToken, startPlatform } from '#test/support/platform.ts';
import { parseMail, startSmtp } from '#test/support/smtp.ts';
import { until } from '#test/support/until.ts';
import { openMailScene } from './scene.ts';
import { askForReset } from '#test/support/reset.ts';

const smtp = await startSmtp();
const platform = await startPlatform({ settings: { PLINTH_SMTP_URL: `smtp://127.0.0.1:${smtp.port}` } });
const { client } = platform;
test.after.always(async () => {
  await platform.stop();
  await smtp.close();
});

const textTo = async (address: string): Promise<string> => {
  const mail = await until(() => smtp.mails.findLast(({ to }) => to[0] === address));
  return (await parseMail(mail)).text ?? '';
};

const tokenIn = (text: string): string => /\/(plinth_[A-Za-z0-9_-]+)/.exec(text)?.[1] ?? '';

test('the link of an invite that came by mail lets its reader in', async (t) => {
  const [owner, guest] = [await client.signUp(), await client.signUp()];
  await client.call('POST', '/team/invite', { token: owner.token, body: { email: guest.email, role: 'developer' } });
  const token = tokenIn(await textTo(guest.email));
  const answer = await client.call('POST', `/team/invite/${token}/accept`, { token: guest.token });
  t.is(answer.status, 200);
  t.like(answer.body, { accepted: true, role: 'developer' });
});

test('the link of a password reset that came by mail sets a new password', async (t) => {
  const user = await client.signUp();
  await client.call('POST', '/auth/forgot', { body: { email: user.email } });
  const token = tokenIn(await textTo(user.email));
  const password = 'another good one';
  const reset = await client.call('POST', '/auth/reset', { body: { token, password } });
  t.true(reset.status < 300);
  t.is((await client.call('POST', '/auth/login', { body: { email: user.email, password } })).status, 200);
});

test('the name of an organization is text in a mail, whatever it holds', async (t) => {
  const [owner, guest] = [await client.signUp(), await client.signUp()];
  const token = owner.token;
  const orgName = '<img src=x onerror=alert(1)>\nReset here:\nhttp://evil.example';
  const made = await client.call('POST', '/team/orgs', { token, body: { org_name: orgName.replaceAll('\n', ' ') } });
  const headers = { 'x-org-id': String(made.body.org_id) };
  await client.call('POST', '/team/invite', { token, headers, body: { email: guest.email, role: 'viewer' } });
  const mail = await until(() => smtp.mails.findLast(({ to }) => to[0] === guest.email));
  const { html = '' } = await parseMail(mail);
  t.false(html.includes('<img'));
  t.false(html.includes('href="http://evil.example"'));
});

test('admins and owners of a project’s organization get its notices, others do not', async (t) => {
  const scene = await openMailScene(platform);
  t.teardown(scene.close);
  const [owner, viewer] = [await client.signUp(), await client.signUp()];
  const project = await client.createProject(owner);
  const body = { email: viewer.email, role: 'viewer' };
  await client.call('POST', '/team/invite', { token: owner.token, body });
  const invite = tokenIn(await textTo(viewer.email));
  await client.call('POST', `/team/invite/${invite}/accept`, { token: viewer.token });
  const mail = createPlatformMail(scene.platform.sealer, 'http://plinth.test');
  const notice = { projectId: project.id, subject: 'A\r\nBcc: x', paragraphs: ['Something.'] };
  await noticeToAdmins(mail, platform.db, notice);
  const got = await until(() => smtp.mails.findLast(({ to }) => to[0] === owner.email));
  t.is((await parseMail(got)).subject, 'A Bcc: x');
  t.is(smtp.mails.filter(({ to }) => to[0] === viewer.email).length, 1, 'the invite alone');
  const count = 'select from platform_mail where project_id = $1';
  await noticeToAdmins(mail, platform.db, notice);
  t.is((await platform.db.query(count, [project.id])).length, 1, 'one an hour');
  await platform.db.query(`update platform_mail set created_at = now() - interval '61 minutes' where project_id = $1`, [
    project.id,
  ]);
  await noticeToAdmins(mail, platform.db, notice);
  t.is((await platform.db.query(count, [project.id])).length, 2);
});

test('operators see what became of a mail, and have one sent again', async (t) => {
  const user = await client.signUp();
  await client.call('POST', '/auth/forgot', { body: { email: user.email } });
  await textTo(user.email);
  const find = async () => {
    const { body } = await client.call('GET', '/ops/api/mail?limit=200', { token: opsToken });
    return (body.mails as { id: string; recipient: string; status: string }[]).find((m) => m.recipient === user.email);
  };
  const sent = await until(async () => {
    const found = await find();
    return found?.status === 'sent' && found;
  });
  const path = `/ops/api/mail/${sent.id}`;
  t.is((await client.call('POST', `${path}/retry`, { token: opsToken })).status, 409);
  await platform.db.query(`update platform_mail set status = 'failed', error = 'no' where id = $1`, [sent.id]);
  const again = await client.call('POST', `${path}/retry`, { token: opsToken });
  t.is(again.status, 200);
  t.is(again.body.status, 'queued');
  await until(() => smtp.mails.filter(({ to }) => to[0] === user.email).length === 2);
  t.pass();
});

test('a mail is shown as a document that may do nothing', async (t) => {
  const user = await client.signUp();
  await askForReset(platform, user.email);
  const { body } = await client.call('GET', '/ops/api/mail?limit=200', { token: opsToken });
  const { id } = (body.mails as { id: string; recipient: string }[]).find((m) => m.recipient === user.email) ?? {};
  const response = await fetch(`${platform.base}/ops/api/mail/${id}/html`, {
    headers: { authorization: `Bearer ${opsToken}` },
  });
  t.is(response.status, 200);
  t.regex(response.headers.get('content-security-policy') ?? '', /^sandbox; default-src 'none'/);
  t.true((await response.text()).includes('Set a new password'));
});

test('an address is sent five invites a day at most, whoever invites it', async (t) => {
  const [one, other] = [await client.signUp(), await client.signUp()];
  const email = `often-${Date.now()}@example.com`;
  const invite = (token: string, to: string) =>
    client.call('POST', '/team/invite', { token, body: { email: to, role: 'viewer' } });
  const { body } = await invite(one.token, email);
  const again = () => client.call('POST', `/team/members/${body.id}/resend`, { token: one.token });
  for (let i = 0; i < 3; i += 1) t.is((await again()).status, 200);
  t.is((await invite(other.token, email.toUpperCase())).status, 201);
  const refused = await again();
  t.is(refused.status, 429);
  t.is(refused.body.code, 'rate_limited');
  t.truthy(refused.headers.get('retry-after'));
  t.is((await invite(one.token, `other-${email}`)).status, 201);
});
