import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import test from 'ava';
import { MailFailure } from '#domain/email/failure.ts';
import { plainRule } from '#domain/email/smtp.ts';
import { type Mail, type TransportOptions, openTransport } from '#domain/email/transport.ts';
import { createEgress } from '#lib/egress.ts';
import { type SmtpOptions, type TestSmtp, makeCertificate, parseMail, startSmtp } from '#test/support/smtp.ts';

const egress = createEgress({ allow: undefined, local: true, resolve: () => Promise.resolve(['127.0.0.1']) });
const certificate = makeCertificate('mail.test');

const closes: (() => unknown)[] = [];
test.after.always(async () => {
  await Promise.all(closes.map((close) => close()));
  await egress.close();
});

const smtp = async (options?: SmtpOptions): Promise<TestSmtp> => {
  const server = await startSmtp(options);
  closes.push(server.close);
  return server;
};

const mail: Mail = {
  messageId: '0190@example.com',
  from: { name: 'Müller, "Söhne" & Co', address: 'shop@example.com' },
  to: 'ada@example.com',
  subject: 'Grüße 👋🏽 an alle',
  html: '<p>Schöne Grüße</p>',
  text: 'Schöne Grüße',
};

const usual = {
  host: 'mail.test',
  tls: 'offered',
  username: '',
  password: '',
  lookup: egress.lookup,
  plainTo: plainRule(true),
  ca: certificate.cert,
} as const;

const send = (port: number, options: Partial<TransportOptions> = {}, fields: Partial<Mail> = {}): Promise<string> => {
  const transport = openTransport({
    ...usual,
    port,
    ...options,
  });
  closes.push(transport.close);
  return transport.send({ ...mail, ...fields }, new AbortController().signal);
};

const fails = async (sending: Promise<string>): Promise<MailFailure> => {
  const error = await sending.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (error instanceof MailFailure) return error;
  throw new Error('it was sent, or failed otherwise', { cause: error });
};

for (const tls of ['start', 'starttls'] as const) {
  test(`over TLS (${tls}) a mail arrives, signed in`, async (t) => {
    const server = await smtp({ tls, certificate, user: { name: 'shop', password: 'right' } });
    const rule = tls === 'start' ? 'start' : 'required';
    const words = await send(server.port, { tls: rule, username: 'shop', password: 'right' });
    t.regex(words, /^250/);
    t.like(server.mails[0], { user: 'shop', secure: true });
  });
}

test('where STARTTLS is offered it is used, on this machine too', async (t) => {
  const server = await smtp({ tls: 'starttls', certificate });
  await send(server.port);
  t.true(server.mails[0]?.secure);
});

test('without STARTTLS nothing is sent, neither password nor mail, but to this machine where that is open', async (t) => {
  const server = await smtp({ user: { name: 'shop', password: 'right' } });
  const signedIn = { username: 'shop', password: 'right' };
  const refused = [{ tls: 'required' }, { plainTo: plainRule(false) }, { tls: 'start' }] as const;
  for (const options of refused) {
    const { message, fault } = await fails(send(server.port, { ...signedIn, ...options }));
    t.is(fault, options === refused[2] ? 'again' : 'rejected');
    t.regex(message, /no safe connection to mail\.test/);
  }
  t.is(server.mails.length, 0);
  await send(server.port, signedIn);
  t.is(server.mails.length, 1);
});

test('a certificate for another name, or of nobody known, is not accepted', async (t) => {
  const other = makeCertificate('other.test');
  const server = await smtp({ tls: 'starttls', certificate: other });
  for (const ca of [other.cert, certificate.cert]) {
    t.regex((await fails(send(server.port, { tls: 'required', ca }))).message, /certificate is not acceptable/);
  }
  t.is(server.mails.length, 0);
});

test('letters of any kind arrive as they were', async (t) => {
  const server = await smtp();
  await send(server.port);
  const [received] = server.mails;
  if (!received) throw new Error('nothing arrived');
  const parsed = await parseMail(received);
  t.deepEqual(parsed.from, { name: mail.from.name, address: mail.from.address });
  t.is(parsed.subject, mail.subject);
  t.regex(parsed.html ?? '', /Schöne Grüße/);
  t.regex(parsed.text ?? '', /Schöne Grüße/);
});

test('domains of any script arrive in the form of DNS', async (t) => {
  const server = await smtp();
  await send(server.port, {}, { to: 'ada@müller.example' });
  t.regex(server.mails[0]?.raw ?? '', /^To: ada@xn--mller-kva\.example\r$/m);
});

test('headers go out as they are given', async (t) => {
  const server = await smtp();
  const headers = {
    'List-Unsubscribe': '<https://example.com/u?a=b>',
    'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
  };
  await send(server.port, {}, { headers });
  const raw = server.mails[0]?.raw ?? '';
  for (const [name, value] of Object.entries(headers)) t.true(raw.includes(`${name}: ${value}\r\n`), name);
});

test('with a key the mail is signed for its domain', async (t) => {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
  const server = await smtp();
  await send(server.port, {}, { dkim: { domain: 'example.com', selector: 'mail2026', privateKey: pem } });
  const raw = server.mails[0]?.raw ?? '';
  t.regex(raw, /^DKIM-Signature: v=1; a=rsa-sha256;[^]*?d=example\.com;[^]*?s=mail2026;[^]*?\bh=[^;]*\bfrom:/i);
});

test('a body cannot have a file of ours or an address read', async (t) => {
  const server = await smtp();
  const html = '<img src="file:///etc/passwd"><img src="/etc/passwd"><img src="data:text/plain;base64,eA==">';
  await send(server.port, {}, { html, text: '/etc/passwd' });
  const raw = server.mails[0]?.raw ?? '';
  t.false(raw.includes('root:'));
});

test('a server that says "later" may be asked again; one that says no may not', async (t) => {
  const words: readonly [number, string, MailFailure['fault']][] = [
    [421, '4.3.2 Shutting down', 'again'],
    [451, '4.7.1 Greylisted', 'again'],
    [503, '5.5.1 Bad sequence', 'again'],
    [550, '5.1.1 No such user', 'bounced'],
    [552, '5.2.2 Mailbox full', 'bounced'],
    [554, '5.7.1 Spam', 'rejected'],
  ];
  for (const [code, text, fault] of words) {
    const server = await smtp({ onMail: () => ({ code, text }) });
    const failure = await fails(send(server.port));
    t.is(failure.fault, fault, text);
    t.true(failure.message.includes(text), failure.message);
  }
});

test('a recipient who is refused for now is no bounce', async (t) => {
  const server = await smtp({ onRecipient: () => ({ code: 450, text: '4.2.1 Busy' }) });
  t.is((await fails(send(server.port))).fault, 'again');
});

test('a mail that is given up ends its connection and nothing else', async (t) => {
  const { promise: arrived, resolve } = Promise.withResolvers<void>();
  const server = await smtp({
    onMail: ({ to }) => {
      if (to[0] !== 'slow@example.com') return 'take';
      resolve();
      return new Promise(() => undefined);
    },
  });
  const transport = openTransport({
    ...usual,
    port: server.port,
  });
  closes.push(transport.close);
  const giveUp = new AbortController();
  const slow = transport.send({ ...mail, to: 'slow@example.com' }, giveUp.signal);
  await arrived;
  giveUp.abort();
  t.is((await fails(slow)).fault, 'unknown', 'the server had the whole mail');
  t.regex(await transport.send(mail, new AbortController().signal), /^250/);
});

test('a connection that the server ended while nothing was sent is made anew', async (t) => {
  const server = await smtp({ onMail: () => 'take and hang up' });
  const transport = openTransport({
    ...usual,
    port: server.port,
  });
  closes.push(transport.close);
  for (let i = 0; i < 3; i += 1) await transport.send(mail, new AbortController().signal);
  t.is(server.mails.length, 3);
});

test('a server that ends the connection, or says nothing, behind the final dot leaves it unknown whether it took the mail', async (t) => {
  const hangsUp = await smtp({ onMail: () => 'hang up' });
  const mute = await smtp({ onMail: () => new Promise(() => undefined) });
  for (const { port } of [hangsUp, mute]) {
    const failure = await fails(send(port, { timeouts: { answerMs: 200 } }));
    t.is(failure.fault, 'unknown');
    t.regex(failure.message, /may have been delivered/);
  }
});

test('a server that says nothing before it has the mail may be asked again', async (t) => {
  const silent = createServer((socket) => void socket.on('error', () => undefined)).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  closes.push(() => silent.close());
  const { port } = silent.address() as AddressInfo;
  t.is((await fails(send(port, { timeouts: { connectMs: 200 } }))).fault, 'again');
  t.is((await fails(send(port, { timeouts: { deliverMs: 200 } }))).fault, 'again');
});

test('a slow answer gives its place to the next mail, and is heard when it comes', async (t) => {
  const { promise: answer, resolve: give } = Promise.withResolvers<'take'>();
  const server = await smtp({ onMail: ({ to }) => (to[0] === 'slow@example.com' ? answer : 'take') });
  const transport = openTransport({ ...usual, port: server.port, connections: 1, timeouts: { slowMs: 50 } });
  closes.push(transport.close);
  const signal = new AbortController().signal;
  let isSlow = false;
  const slow = transport.send({ ...mail, to: 'slow@example.com' }, signal, () => {
    isSlow = true;
  });
  t.regex(await transport.send(mail, signal), /^250/);
  t.true(isSlow);
  give('take');
  t.regex(await slow, /^250/);
});

test('an address with letters beyond ASCII before the @ fails plainly where the server lacks SMTPUTF8', async (t) => {
  const lacking = await smtp({ asciiOnly: true });
  const failure = await fails(send(lacking.port, {}, { to: 'jörg@example.com' }));
  t.is(failure.fault, 'rejected');
  t.regex(failure.message, /no SMTPUTF8.*jörg@example\.com/);
  t.is(lacking.mails.length, 0);
  t.regex(await send(lacking.port), /^250/);
  const able = await smtp();
  await send(able.port, {}, { to: 'jörg@example.com' });
  t.deepEqual(able.mails[0]?.to, ['jörg@example.com']);
});
