import test from 'ava';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type TestSmtp, parseMail, startSmtp } from '#test/support/smtp.ts';
import { mailProject } from './scene.ts';

const platform = usePlatform(test);

const types = ['signup', 'invite', 'password-reset', 'magic-link', 'email-change', 'reauthentication'];
const text = { subject: 'Hi {{user_name}}', html_body: '<p>{{user_name}} at {{project_name}}</p>', enabled: true };

let server: TestSmtp;
test.before('a mail server', async () => {
  server = await startSmtp();
});
test.after.always(() => server.close());

test('a project begins with a default template of each type', async (t) => {
  const { call } = await mailProject(platform());
  const { body } = await call('GET', '/email/templates');
  t.is(body.total, types.length);
  t.deepEqual(
    body.templates.map(({ type }: { type: string }) => type),
    types,
  );
  for (const template of body.templates) {
    t.like(template, { enabled: true, is_default: true, missing: [], updated_at: null });
    t.deepEqual((await call('GET', `/email/templates/${template.type}`)).body, template);
  }
});

test('a template of one’s own is used, and goes with a reset', async (t) => {
  const { call, sendTest } = await mailProject(platform(), { port: server.port });
  const before = await call('GET', '/email/templates/signup');
  const put = await call('PUT', '/email/templates/signup', { ...text, enabled: false });
  t.is(put.status, 200);
  t.like(put.body, { ...text, enabled: false, is_default: false, missing: [] });
  t.deepEqual((await call('GET', '/email/templates/signup')).body, put.body);
  t.true((await call('GET', '/email/templates/invite')).body.is_default);
  t.is((await sendTest('own@example.com')).status, 200, 'a template that is turned off can be tried, too');
  const received = server.mails.find(({ to }) => to[0] === 'own@example.com');
  if (!received) throw new Error('nothing arrived');
  t.is((await parseMail(received)).subject, 'Hi Ada Lovelace');
  const reset = await call('POST', '/email/templates/signup/reset');
  t.deepEqual([reset.status, reset.body], [200, before.body]);
  t.deepEqual((await call('GET', '/email/templates/signup')).body, before.body);
  t.is((await call('POST', '/email/templates/signup/reset')).status, 200, 'once more changes nothing');
});

test('a save names the placeholders that nothing fills, and keeps the text', async (t) => {
  const { call } = await mailProject(platform());
  const html_body = '{{user_name}} {{nobody}} {{constructor}} {{__proto__.x}} {{reset_url}} {{{nobody}}}';
  const put = await call('PUT', '/email/templates/signup', { ...text, subject: '{{other}}', html_body });
  t.is(put.status, 200);
  t.deepEqual(put.body.missing, ['other', 'nobody', 'constructor', '__proto__.x', 'reset_url']);
  t.is(put.body.html_body, html_body);
});

test('a preview shows the saved template, or a text that is being written, and saves nothing', async (t) => {
  const { project, call } = await mailProject(platform());
  const saved = await call('POST', '/email/templates/signup/preview');
  t.is(saved.status, 200, saved.text);
  t.is(saved.body.subject, `Confirm your e-mail address for ${project.slug}`);
  t.is(saved.body.variables.user_name, 'Ada Lovelace');
  t.deepEqual(saved.body.missing, []);
  const draft = { subject: '{{user_name}}{{x}}', html_body: '<p>{{user_email}}</p>' };
  const shown = await call('POST', '/email/templates/signup/preview', draft);
  t.like(shown.body, { subject: 'Ada Lovelace', html: '<p>ada@example.com</p>', text: 'ada@example.com' });
  t.deepEqual(shown.body.missing, ['x']);
  t.true((await call('GET', '/email/templates/signup')).body.is_default);
});

test('a preview that is kept is shown to who kept it, and to nobody else', async (t) => {
  const { call, project } = await mailProject(platform());
  const html = '<p>only mine</p>';
  await call('POST', '/email/templates/signup/preview', { html_body: html });
  const framed = async (): Promise<string> => (await call('GET', '/email/templates/signup/preview?draft=true')).text;
  t.false((await framed()).includes('only mine'));
  await call('POST', '/email/templates/signup/preview', { html_body: html, keep: true });
  t.true((await framed()).includes('only mine'));
  t.false((await call('GET', '/email/templates/signup/preview')).text.includes('only mine'));
  const colleague = await addMember(platform(), project.orgId, 'viewer');
  const path = `/projects/${project.id}/email/templates/signup/preview?draft=true`;
  const theirs = await platform().client.call('GET', path, { token: colleague.token });
  t.is(theirs.status, 200);
  t.false(theirs.text.includes('only mine'));
  t.is((await call('GET', '/email/templates/signup')).body.is_default, true);
});

test('the preview as a page lets nothing run and nothing be loaded but pictures', async (t) => {
  const { call } = await mailProject(platform());
  const html_body = '<script>alert(1)</script><p onclick="x()">{{user_name}}</p>';
  await call('PUT', '/email/templates/signup', { ...text, html_body });
  const { status, headers, text: page } = await call('GET', '/email/templates/signup/preview');
  t.is(status, 200);
  t.regex(headers.get('content-type') ?? '', /^text\/html/);
  const policy = headers.get('content-security-policy') ?? '';
  t.regex(policy, /(^|; )sandbox(;|$)/);
  t.regex(policy, /default-src 'none'/);
  t.notRegex(policy, /script|allow-/);
  t.true(page.includes('Ada Lovelace'));
});

const bad: Record<string, Record<string, unknown>> = {
  'no subject': { subject: undefined },
  'an empty subject': { subject: '' },
  'a blank subject': { subject: '  ' },
  'a subject with a line feed': { subject: 'a\nBcc: b@example.com' },
  'a subject with a carriage return': { subject: 'a\rb' },
  'a subject with a line separator': { subject: 'a\u2028b' },
  'a subject with NUL': { subject: 'a\0b' },
  'a subject with half a character': { subject: '\ud800' },
  'a subject of 201': { subject: 'x'.repeat(201) },
  'no body': { html_body: undefined },
  'an empty body': { html_body: '' },
  'a body with NUL': { html_body: '\0' },
  'a body of more than 256 KB': { html_body: 'x'.repeat(262_145) },
  'a body of more than 256 KB in bytes': { html_body: 'ü'.repeat(131_073) },
  'enabled as text': { enabled: 'yes' },
  'no enabled': { enabled: undefined },
  'an unknown field': { colour: 'red' },
};

test('texts that are not valid are 400 and change nothing', async (t) => {
  const { call } = await mailProject(platform());
  for (const [what, fields] of Object.entries(bad)) {
    const answer = await call('PUT', '/email/templates/invite', { ...text, ...fields });
    t.deepEqual([answer.status, answer.body.code], [400, 'validation_failed'], what);
  }
  t.is((await call('PUT', '/email/templates/invite', { ...text, html_body: 'x'.repeat(1_100_000) })).status, 413);
  t.true((await call('GET', '/email/templates/invite')).body.is_default);
  t.is((await call('PUT', '/email/templates/invite', { ...text, html_body: 'x'.repeat(262_144) })).status, 200);
});

test('a type that does not exist is 404', async (t) => {
  const { call } = await mailProject(platform());
  for (const type of ['welcome', 'constructor', 'SIGNUP']) {
    t.is((await call('GET', `/email/templates/${type}`)).status, 404, type);
  }
});

test('a test goes to one address and to nothing else', async (t) => {
  const { sendTest } = await mailProject(platform(), { port: server.port });
  for (const to of [
    '',
    'a@example.com,b@example.com',
    'a@example.com\r\nBcc: b@example.com',
    'Ada <a@example.com>',
    'a@example.com\0',
  ]) {
    const answer = await sendTest(to);
    t.deepEqual([answer.status, answer.body.code], [400, 'validation_failed'], JSON.stringify(to));
  }
  const strayed = server.mails.flatMap(({ to }) => to).filter((to) => /^[ab]@example\.com$/.test(to));
  t.deepEqual(strayed, []);
});

test('what a project’s name holds does not get out of the subject or into the markup', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user, { name: 'A <b>"x"</b> & Co' });
  const path = `/projects/${project.id}/email/templates/signup/preview`;
  const { body } = await client.call('POST', path, { token: user.token });
  t.is(body.subject, 'Confirm your e-mail address for A <b>"x"</b> & Co');
  t.false(body.html.includes('<b>"x"'));
  t.true(body.html.includes('A &lt;b&gt;&quot;x&quot;&lt;/b&gt; &amp; Co'));
});

test('viewers look and preview, developers change and send; others find nothing', async (t) => {
  const { project, call } = await mailProject(platform(), { port: server.port });
  const { client } = platform();
  const path = `/projects/${project.id}/email/templates`;
  const [viewer, developer] = await Promise.all(
    (['viewer', 'developer'] as const).map((role) => addMember(platform(), project.orgId, role)),
  );
  const stranger = await mailProject(platform());
  const calls = [
    ['GET', '', undefined, 200],
    ['GET', '/signup', undefined, 200],
    ['GET', '/signup/preview', undefined, 200],
    ['POST', '/signup/preview', {}, 200],
    ['PUT', '/signup', text, 403],
    ['POST', '/signup/reset', {}, 403],
    ['POST', '/signup/send-test', { email: 'a@example.com' }, 403],
  ] as const;
  for (const [method, below, body, ofViewer] of calls) {
    const ask = async (token: string | undefined) =>
      (await client.call(method, `${path}${below}`, { token, body })).status;
    t.is(await ask(viewer?.token), ofViewer, `${method} ${below}`);
    t.is(await ask(stranger.user.token), 404, `${method} ${below}`);
    t.is(await ask(developer?.token), 200, `${method} ${below}`);
  }
  t.is((await call('GET', '/email/templates')).status, 200);
});
