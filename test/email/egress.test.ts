import test from 'ava';
import { checkSmtp } from '#domain/email/smtp-check.ts';
import { openTransport } from '#domain/email/transport.ts';
import { type Egress, createEgress } from '#lib/egress.ts';
import { egressCases, startBannerServer } from '#test/support/egress-cases.ts';

const opened: Egress[] = [];
test.after.always(() => Promise.all(opened.map((egress) => egress.close())));

const server = { tls: 'offered', username: '', password: '', plainTo: () => true } as const;

egressCases(test, {
  what: 'a mail server',
  takesUrls: false,
  takesNames: true,
  make: (settings) => {
    const egress = createEgress(settings);
    opened.push(egress);
    return async ({ host, port }) => {
      const options = { ...server, host, port, lookup: egress.lookup, fromEmail: 'a@example.com', timeoutMs: 200 };
      const { steps } = await checkSmtp(options);
      const [dns] = steps;
      if (dns?.ok === true) return 'reached';
      if (/may not be reached from here/.test(dns?.error ?? '')) return 'refused';
      throw new Error(dns?.error ?? 'no step was done');
    };
  },
});

test('a mail to be sent goes to no other address than the one that was checked, however the host is written', async (t) => {
  const trap = await startBannerServer('220 hello\r\n');
  const egress = createEgress({ allow: '', local: true, resolve: () => Promise.resolve(['127.0.0.1']) });
  opened.push(egress);
  const mail = {
    messageId: 'a@b.c',
    from: { name: '', address: 'a@b.c' },
    to: 'b@b.c',
    subject: '',
    html: '',
    text: '',
  };
  for (const host of ['127.0.0.1', 'localhost', '2130706433', '[::1]', 'rebind.example']) {
    const transport = openTransport({ ...server, host, port: trap.port, lookup: egress.lookup });
    const error = await t.throwsAsync(transport.send(mail, new AbortController().signal));
    t.regex(error.message, /may not be reached from here/, host);
    transport.close();
  }
  t.is(trap.connections(), 0);
  await trap.close();
});
