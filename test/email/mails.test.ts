import test from 'ava';
import type { Answer } from '#test/support/client.ts';
import { isError } from '#test/support/is-error.ts';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type SmtpOptions, startSmtp } from '#test/support/smtp.ts';
import { until } from '#test/support/until.ts';
import { emailRows, mailProject } from './scene.ts';

const platform = usePlatform(test);

interface Mail {
  readonly id: string;
  readonly recipient: string;
  readonly status: string;
}

const scene = async (t: { teardown: (work: () => Promise<void>) => void }, options: SmtpOptions = {}) => {
  const server = await startSmtp(options);
  t.teardown(() => server.close());
  const made = await mailProject(platform(), { port: server.port });
  const list = async (query = ''): Promise<Mail[]> => {
    const answer = await made.call('GET', `/email/mails?${query}`);
    if (answer.status !== 200) throw new Error(answer.text);
    return answer.body.mails as Mail[];
  };
  const resend = (filter: object, dryRun = false): Promise<Answer> =>
    made.call('POST', '/email/mails/resend', { filter, dry_run: dryRun });
  return { ...made, server, list, resend };
};

/** A server that refuses everything for good until it is told otherwise. */
const refusing = () => {
  const state = { isOpen: false };
  const onMail: SmtpOptions['onMail'] = () => (state.isOpen ? 'take' : { code: 554, text: '5.7.1 Spam <b>"x"</b>' });
  return { state, onMail };
};

const onRecipient: SmtpOptions['onRecipient'] = (address) =>
  address.startsWith('gone') ? { code: 550, text: '5.1.1 No such user' } : null;

test('undelivered mails are listed with the reason in words, and never with what they say', async (t) => {
  const { state, onMail } = refusing();
  const { sendTest, list, call } = await scene(t, { onMail, onRecipient });
  await sendTest('refused@example.com');
  await sendTest('gone@example.com');
  state.isOpen = true;
  const good = await sendTest('good@example.com');
  t.deepEqual(
    (await list()).map(({ recipient, status }) => `${recipient} ${status}`),
    ['good@example.com sent', 'gone@example.com bounced', 'refused@example.com failed'],
  );
  const undelivered = await list('status=undelivered');
  t.is(undelivered.length, 2);
  t.like(undelivered[1], {
    error: 'The mail server said: 554 5.7.1 Spam <b>"x"</b>',
    attempts: 1,
    template: 'signup',
    can_be_resent: true,
    sent_at: null,
  });
  t.like(undelivered[0], { can_be_resent: false });
  const cases: readonly (readonly [query: string, count: number])[] = [
    ['status=bounced', 1],
    ['recipient=REFUSED', 1],
    ['recipient=%25', 0],
    ['error=no%20such', 1],
    ['template=invite', 0],
    [`request_id=${good.headers.get('x-request-id')}`, 1],
    ['request_id=nothing', 0],
    [`until=${new Date(Date.now() - 600_000).toISOString()}`, 0],
    [`since=${new Date(Date.now() - 600_000).toISOString()}&status=sent`, 1],
  ];
  for (const [query, count] of cases) t.is((await list(query)).length, count, query);
  const whole = await call('GET', '/email/mails');
  t.notRegex(whole.text, /token=sample|Confirm your e-mail/);
  for (const query of ['status=lost', 'limit=0', 'limit=201', 'cursor=x', 'since=now', 'recipient=', 'template=x'])
    isError(t, await call('GET', `/email/mails?${query}`), 400, 'validation_failed');
});

test('pages follow each other without a gap or a repetition while mails are made', async (t) => {
  const { sendTest, list, call } = await scene(t);
  for (let made = 0; made < 5; made += 1) await sendTest(`${made}@example.com`);
  const expected = (await list()).map(({ id }) => id);
  const seen: string[] = [];
  let next: string | null = '';
  while (next !== null) {
    const { body } = await call('GET', `/email/mails?limit=2${next === '' ? '' : `&cursor=${next}`}`);
    seen.push(...body.mails.map(({ id }: Mail) => id));
    ({ next } = body);
    await sendTest();
  }
  t.deepEqual(seen, expected);
});

test('mails are counted first, then sent again, each once however many ask at the same time', async (t) => {
  const { state, onMail } = refusing();
  const { server, sendTest, list, resend } = await scene(t, { onMail });
  for (const name of ['a', 'b', 'c']) await sendTest(`${name}@example.com`);
  const counted = await resend({ status: 'failed' }, true);
  t.deepEqual(counted.body, { matched: 3, changed: 0 });
  t.is((await list('status=undelivered')).length, 3);
  state.isOpen = true;
  const before = server.mails.length;
  const [first] = await list('recipient=a%40');
  const one = await resend({ ids: [first?.id] });
  t.deepEqual(one.body, { matched: 1, changed: 1 }, one.text);
  await until(async () => (await list('status=sent')).length === 1);
  const answers = await Promise.all([resend({ status: 'failed' }), resend({ recipient: 'example.com' })]);
  // Only one such call of a project runs at a time.
  const changed = answers
    .filter(({ status }) => status === 200)
    .reduce((sum, { body }) => sum + Number(body.changed), 0);
  t.is(changed, 2);
  await until(async () => (await list('status=sent')).length === 3);
  t.is(server.mails.length - before, 3);
  t.deepEqual((await resend({ recipient: 'example.com' })).body, { matched: 0, changed: 0 });
});

test('a mail whose job is not kept any more is sent by a new one', async (t) => {
  const { state, onMail } = refusing();
  const { project, sendTest, list, resend } = await scene(t, { onMail });
  await sendTest();
  const { db } = platform();
  await db.query('delete from jobs where project_id = $1 and type = $2', [project.id, 'email.send']);
  const [before] = await emailRows(platform(), project.id);
  t.is(before?.status, 'failed');
  state.isOpen = true;
  t.deepEqual((await resend({ status: 'failed' })).body, { matched: 1, changed: 1 });
  await until(async () => (await list('status=sent')).length === 1);
});

test('what a mail says is for admins alone, and the audit log says who read it', async (t) => {
  const { state, onMail } = refusing();
  const { project, sendTest, list, call } = await scene(t, { onMail });
  await sendTest();
  const [mail] = await list();
  const at = `/projects/${project.id}/email/mails/${mail?.id}/read`;
  const { client, db } = platform();
  for (const role of ['viewer', 'developer'] as const) {
    const { token } = await addMember(platform(), project.orgId, role);
    isError(t, await client.call('POST', at, { token }), 403, 'forbidden');
  }
  const { token } = await addMember(platform(), project.orgId, 'admin');
  const read = await client.call('POST', at, { token });
  t.is(read.status, 200, read.text);
  t.regex(read.body.text, /https:\/\/example\.com\/confirm\?token=sample/);
  t.regex(read.body.subject, /^Confirm/);
  const entries = await db.query(
    'select 1 from audit_entries where project_id = $1 and action = $2 and target_id = $3',
    [project.id, 'email.read', mail?.id],
  );
  t.is(entries.length, 1);
  state.isOpen = true;
  const sent = await sendTest();
  isError(t, await call('POST', `/email/mails/${sent.body.email_id}/read`), 410, 'expired');
});

test('a viewer sends nothing again, and the mails of another project are not found', async (t) => {
  const { state, onMail } = refusing();
  const [one, other] = [await scene(t, { onMail }), await scene(t)];
  await one.sendTest();
  const [mail] = await one.list();
  state.isOpen = true;
  isError(t, await other.call('GET', `/email/mails/${mail?.id}`), 404, 'not_found');
  isError(t, await other.call('POST', `/email/mails/${mail?.id}/read`), 404, 'not_found');
  t.deepEqual((await other.resend({ ids: [mail?.id] })).body, { matched: 0, changed: 0 });
  t.deepEqual(await other.list(), []);
  const { token } = await addMember(platform(), one.project.orgId, 'viewer');
  const { client } = platform();
  const at = `/projects/${one.project.id}/email/mails`;
  t.is((await client.call('GET', `${at}/${mail?.id}`, { token })).status, 200);
  const body = { filter: { status: 'failed' } };
  isError(t, await client.call('POST', `${at}/resend`, { token, body }), 403, 'forbidden');
  isError(t, await client.call('GET', at, { token: other.user.token }), 404, 'not_found');
  for (const filter of [{}, { status: 'sent' }, { status: 'bounced' }, { ids: [] }, { ids: ['x'] }, { other: 1 }])
    isError(t, await one.resend(filter), 400, 'validation_failed');
  t.is((await one.list('status=failed')).length, 1);
});
