import test, { type ExecutionContext } from 'ava';
import { MailFailure } from '#domain/email/failure.ts';
import { findMailProvider, resendTransport } from '#domain/email/resend.ts';
import { createEgress } from '#lib/egress.ts';
import { findProject } from '#domain/projects/store.ts';
import { openKeyRing } from '#lib/secrets.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type Answering, type Respond, serveProvider } from '#test/support/provider-server.ts';
import { integrationScene } from './scene.ts';

const platform = usePlatform(test);

const mail = {
  messageId: '0190c5a2@mail.example',
  from: { name: 'Shop', address: 'shop@mail.example' },
  to: 'ann@example.com',
  subject: 'Zoë’s order',
  html: '<p>Hi</p>',
  text: 'Hi',
  headers: { 'List-Unsubscribe': '<https://shop.example/u>' },
};

const send = async (t: ExecutionContext, respond: Respond) => {
  const server = await serveProvider(t, respond);
  const egress = createEgress({ allow: '127.0.0.0/8', local: true });
  t.teardown(() => egress.close());
  const config = { api_key: 're_the_key', from_email: 'Shop <shop@b.example>', base_url: server.base };
  const transport = resendTransport(egress, config);
  const outcome = await transport.send(mail, new AbortController().signal).then(
    (response) => ({ response, failure: null }),
    (failure: unknown) => ({ response: null, failure }),
  );
  return { ...outcome, requested: server.requested };
};

test('a mail goes out by the API, under a key that is the same on each try', async (t) => {
  const { response, requested } = await send(t, () => ({ body: { id: 'mail-1' } }));
  t.is(response, 'Resend took it as mail-1.');
  const [one] = requested;
  t.like(one, { method: 'POST', path: '/emails' });
  t.like(one?.headers, { authorization: 'Bearer re_the_key', 'idempotency-key': '0190c5a2@mail.example' });
  t.truthy(one?.headers['user-agent']);
  t.deepEqual(JSON.parse(one?.body ?? ''), {
    from: 'Shop <shop@b.example>',
    to: ['ann@example.com'],
    subject: 'Zoë’s order',
    html: '<p>Hi</p>',
    text: 'Hi',
    headers: { 'List-Unsubscribe': '<https://shop.example/u>' },
  });
});

test('an id that is no word is made one: it stands in the record of the mail', async (t) => {
  const said: Record<string, unknown> = {
    'Resend took it as a b.': 'a\0b',
    'Resend took it as x.': '\ud800x\u202e\r\n',
    'Resend took it as ••••.': 're_the_key',
    [`Resend took it as ${'a'.repeat(99)}….`]: `${'a'.repeat(99)}😀`,
    'Resend took it.': '\0',
  };
  for (const [words, id] of Object.entries(said)) t.is((await send(t, () => ({ body: { id } }))).response, words);
});

const faults: Readonly<Record<string, readonly [Answering | undefined, 'again' | 'rejected']>> = {
  'a rate that is too high': [{ status: 429, body: { message: 'Too many requests' } }, 'again'],
  'a fault of Resend': [{ status: 500, body: 'oops' }, 'again'],
  'a connection that is cut': [undefined, 'again'],
  'another try under way': [{ status: 409, body: { name: 'concurrent_idempotent_requests' } }, 'again'],
  'another mail under the same key': [{ status: 409, body: { name: 'invalid_idempotent_request' } }, 'rejected'],
  'a refused key': [
    { status: 403, body: { name: 'invalid_api_key', message: 'API key re_the_key is invalid' } },
    'rejected',
  ],
  'a refused address': [{ status: 422, body: { message: 'Invalid `to` field\r\n.' } }, 'rejected'],
};

for (const [what, [answer, fault]] of Object.entries(faults)) {
  test(`after ${what} the mail is ${fault === 'again' ? 'tried again' : 'given up'}, and no key is in the words`, async (t) => {
    const { failure } = await send(t, () => answer);
    t.true(failure instanceof MailFailure);
    t.is((failure as MailFailure).fault, fault);
    t.false((failure as MailFailure).message.includes('re_the_key'));
    t.false(/[\r\n]/.test((failure as MailFailure).message));
  });
}

test('a project’s mail goes by Resend while that is configured and active', async (t) => {
  const scene = await integrationScene(platform());
  const { db, config } = platform();
  const project = await findProject(db, scene.project.id);
  if (project === undefined) throw new Error('the project is gone');
  const sealer = openKeyRing(config.PLINTH_SECRET_KEYS).sealerFor(project.id, project.data_key);
  const find = () => findMailProvider(db, sealer, project);
  t.is(await find(), null);
  const wanted = { api_key: 're_0123456789abcdef', from_email: 'a@b.example' };
  await scene.configure('resend', wanted);
  t.deepEqual(await find(), wanted);
  await scene.ask('POST', '/resend/toggle');
  t.is(await find(), null);
});
