import { once } from 'node:events';
import { type AddressInfo, type Server, type Socket, createServer } from 'node:net';
import test from 'ava';
import { checkSmtp } from '#domain/email/smtp-check.ts';
import { plainRule, tlsRuleOf } from '#domain/email/smtp.ts';
import { createEgress } from '#lib/egress.ts';
import { type SmtpOptions, type TestSmtp, makeCertificate, startSmtp } from '#test/support/smtp.ts';

const egress = createEgress({ allow: undefined, local: true, resolve: () => Promise.resolve(['127.0.0.1']) });
const certificate = makeCertificate('mail.test');

const servers: { close: () => unknown }[] = [];
test.after.always(async () => {
  await Promise.all(servers.map((server) => server.close()));
  await egress.close();
});

const smtp = async (options?: SmtpOptions): Promise<TestSmtp> => {
  const server = await startSmtp(options);
  servers.push(server);
  return server;
};

/** A server that does what the test says with each connection. */
const rawServer = async (serve: (socket: Socket) => void): Promise<number> => {
  const server: Server = createServer((socket) => {
    socket.on('error', () => undefined);
    servers.push({ close: () => socket.destroy() });
    serve(socket);
  }).listen(0, '127.0.0.1');
  servers.push(server);
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
};

type Options = Partial<Parameters<typeof checkSmtp>[0]>;

const check = async (port: number, options: Options = {}) => {
  const { ok, steps } = await checkSmtp({
    host: 'mail.test',
    port,
    tls: 'offered',
    username: '',
    password: '',
    lookup: egress.lookup,
    plainTo: plainRule(true),
    ca: certificate.cert,
    fromEmail: 'shop@example.com',
    timeoutMs: 3000,
    ...options,
  });
  const last = steps.at(-1);
  return { ok, names: steps.map(({ name }) => name).join(' '), error: last?.error ?? null, steps };
};

test('the port says when TLS begins', (t) => {
  t.deepEqual([465, 587, 2525, 25, 1025].map(tlsRuleOf), ['start', 'required', 'required', 'offered', 'offered']);
});

test('a server that is fine passes all five steps, and gets no mail', async (t) => {
  const server = await smtp({ tls: 'starttls', certificate, user: { name: 'shop', password: 'right' } });
  const answer = await check(server.port, { tls: 'required', username: 'shop', password: 'right' });
  t.is(answer.names, 'dns connect tls auth mail');
  t.deepEqual(
    answer.steps.filter(({ ok, error, ms }) => !ok || error !== null || ms < 0),
    [],
  );
  t.true(answer.ok);
  t.is(server.mails.length, 0);
});

test('a sender with letters beyond ASCII before the @ fails plainly where the server lacks SMTPUTF8', async (t) => {
  const server = await smtp({ asciiOnly: true });
  const { ok, names, error } = await check(server.port, { fromEmail: 'jörg@example.com' });
  t.false(ok);
  t.is(names, 'dns connect tls auth mail');
  t.regex(error ?? '', /no SMTPUTF8/);
  const able = await smtp();
  t.true((await check(able.port, { fromEmail: 'jörg@example.com' })).ok);
});

test('so does one with TLS from the start', async (t) => {
  const server = await smtp({ tls: 'start', certificate });
  t.like(await check(server.port, { tls: 'start' }), { ok: true, names: 'dns connect tls auth mail' });
});

test('so does one on this machine without TLS, in local development only', async (t) => {
  const server = await smtp();
  t.true((await check(server.port)).ok);
  const elsewhere = await check(server.port, { plainTo: plainRule(false), username: 'shop', password: 'never-sent' });
  t.is(elsewhere.names, 'dns connect tls');
  t.regex(elsewhere.error ?? '', /offers no STARTTLS, and without TLS no password is sent/);
});

test('on 587 and 2525 a server without STARTTLS fails, on this machine too', async (t) => {
  const server = await smtp();
  const answer = await check(server.port, { tls: 'required' });
  t.is(answer.names, 'dns connect tls');
  t.regex(answer.error ?? '', /STARTTLS/);
});

test('a name that leads nowhere fails the first step', async (t) => {
  const lost = createEgress({ allow: '', local: false, resolve: () => Promise.resolve([]) });
  const answer = await check(1, { lookup: lost.lookup });
  t.is(answer.names, 'dns');
  t.is(answer.error, 'There is no address for mail.test.');
  await lost.close();
});

test('a private address fails the first step and is not shown', async (t) => {
  const closed = createEgress({ allow: '', local: false, resolve: () => Promise.resolve(['10.9.8.7']) });
  const answer = await check(25, { lookup: closed.lookup });
  t.is(answer.names, 'dns');
  t.regex(answer.error ?? '', /mail\.test may not be reached from here/);
  t.false(JSON.stringify(answer).includes('10.9.8.7'));
  await closed.close();
});

test('a port where nobody listens fails the second step, without the address', async (t) => {
  const server = await startSmtp();
  await server.close();
  const answer = await check(server.port);
  t.is(answer.names, 'dns connect');
  t.is(answer.error, 'No connection to mail.test could be made. Is the port right, and does the server run?');
});

const talk: Record<string, [serve: (socket: Socket) => void, error: RegExp]> = {
  'hangs up at once': [(socket) => socket.destroy(), /closed the connection/],
  'says nothing': [() => undefined, /did not answer in time/],
  'speaks HTTP': [(socket) => void socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'), /does not speak SMTP/],
  'says a line without an end': [(socket) => void socket.write('2'.repeat(100_000)), /does not speak SMTP/],
  'never ends its greeting': [(socket) => void socket.write('220-a\r\n'.repeat(20_000)), /does not speak SMTP/],
  'drips a byte at a time': [
    (socket) => {
      const timer = setInterval(() => socket.write('2'), 50);
      socket.on('close', () => clearInterval(timer));
    },
    /did not answer in time/,
  ],
  'refuses us': [
    (socket) => void socket.write('554 5.7.1 Go away\r\n'),
    /does not want to speak with us\. The server said: 554 5\.7\.1 Go away/,
  ],
};

for (const [what, [serve, error]] of Object.entries(talk)) {
  test(`a server that ${what} fails the second step`, async (t) => {
    const answer = await check(await rawServer(serve), { timeoutMs: 400 });
    t.is(answer.names, 'dns connect');
    t.regex(answer.error ?? '', error);
  });
}

/** Takes everything; the sender and the recipient each after 600 ms. */
const slowServer = (): Promise<number> =>
  rawServer((socket) => {
    socket.write('220 hello\r\n');
    socket.on('data', (said) => {
      setTimeout(() => socket.write('250 fine\r\n'), /^(?:MAIL|RCPT)/.test(String(said)) ? 600 : 0);
    });
  });

test('a step is over in its time, though each of its answers comes in time', async (t) => {
  const answer = await check(await slowServer(), { timeoutMs: 1000 });
  t.is(answer.names, 'dns connect tls auth mail');
  t.regex(answer.error ?? '', /did not answer in time/);
});

test('so are all steps together', async (t) => {
  const answer = await check(await slowServer(), { timeoutMs: 5000, totalMs: 1000 });
  t.is(answer.names, 'dns connect tls auth mail');
  t.regex(answer.error ?? '', /did not answer in time/);
});

const others: Record<string, readonly [greeting: string, reply: string]> = {
  'a server of files': ['220 SecretFTPd 1.2\r\n', '530 Please log in to SecretFTPd\r\n'],
  'a server of news': ['200 SecretNews ready\r\n', '500 SecretNews?\r\n'],
  'a server that knows no EHLO': ['220 Secret\r\n', '502 Secret: no such command\r\n'],
};

for (const [what, [greeting, reply]] of Object.entries(others)) {
  test(`what another service says of itself is not shown: ${what}`, async (t) => {
    const port = await rawServer((socket) => {
      socket.write(greeting);
      socket.on('data', () => socket.write(reply));
    });
    const answer = await check(port);
    t.is(answer.names, 'dns connect');
    t.regex(answer.error ?? '', /does not speak SMTP/);
    t.false(JSON.stringify(answer).includes('Secret'));
  });
}

test('of what a mail server says at its door, no more than 200 characters are shown', async (t) => {
  const answer = await check(await rawServer((socket) => void socket.write(`554 ${'no '.repeat(1000)}\r\n`)));
  t.regex(answer.error ?? '', /The server said: 554 no no/);
  t.true((answer.error ?? '').length < 300);
});

test('a certificate for another name, or of nobody known, fails the third step', async (t) => {
  const other = makeCertificate('other.test');
  const [wrong, unknown] = await Promise.all([
    smtp({ tls: 'starttls', certificate: other }),
    smtp({ tls: 'start', certificate: other }),
  ]);
  const answers = [
    await check(wrong.port, { tls: 'required', ca: other.cert }),
    await check(unknown.port, { tls: 'start' }),
  ];
  for (const answer of answers) {
    t.is(answer.names, 'dns connect tls');
    t.regex(answer.error ?? '', /certificate is not valid for this name/);
  }
});

test('TLS from the start with a server that begins with STARTTLS fails the third step', async (t) => {
  const server = await smtp({ tls: 'starttls', certificate });
  t.is((await check(server.port, { tls: 'start' })).names, 'dns connect tls');
});

test('words that were slipped in before TLS are not believed', async (t) => {
  const port = await rawServer((socket) => {
    socket.write('220 hello\r\n');
    socket.on('data', (chunk) => {
      if (String(chunk).startsWith('EHLO')) socket.write('250-hello\r\n250 STARTTLS\r\n');
      // Then hangs: the answer to the EHLO after TLS is already there, and must not count.
      if (String(chunk).startsWith('STARTTLS')) socket.write('220 go\r\n250 AUTH PLAIN\r\n');
    });
  });
  const answer = await check(port, { tls: 'required', username: 'a', password: 'b', timeoutMs: 400 });
  t.is(answer.names, 'dns connect tls');
});

test('a wrong password fails the fourth step; what the server repeats of it is not shown', async (t) => {
  const server = await smtp({ tls: 'starttls', certificate, user: { name: 'shop', password: 'right' } });
  const answer = await check(server.port, { tls: 'required', username: 'shop', password: 'Tr0ub4dor' });
  t.is(answer.names, 'dns connect tls auth');
  t.regex(answer.error ?? '', /user name or the password is not right.*535/);
  const shown = JSON.stringify(answer);
  for (const secret of ['Tr0ub4dor', Buffer.from('\0shop\0Tr0ub4dor').toString('base64')])
    t.false(shown.includes(secret));
});

test('a server that offers no way to sign in fails the fourth step', async (t) => {
  const server = await smtp();
  const answer = await check(server.port, { username: 'shop', password: 'x' });
  t.is(answer.names, 'dns connect tls auth');
  t.regex(answer.error ?? '', /offers no way to sign in/);
});

test('a sender that the server does not take fails the last step', async (t) => {
  const server = await smtp({ onRecipient: () => ({ code: 550, text: '5.1.1 Unknown' }) });
  const answer = await check(server.port);
  t.is(answer.names, 'dns connect tls auth mail');
  t.regex(answer.error ?? '', /takes no mail to shop@example\.com.*Unknown/);
  t.false(answer.ok);
});
