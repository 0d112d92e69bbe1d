import test, { type ExecutionContext } from 'ava';
import { loadConfig } from '#lib/config.ts';
import { type Egress, type EgressOptions, createEgress, loopbackNotice } from '#lib/egress.ts';
import { EgressRefused } from '#lib/egress/failures.ts';
import { isOpen, parseRanges } from '#lib/egress/ranges.ts';
import { closedHosts, publicAddresses } from '#test/support/egress-cases.ts';

const ordinary = { for: 'platform', timeoutMs: 20_000, maxBytes: 1000 } as const;

const egressFor = (t: ExecutionContext, settings: Partial<EgressOptions> = {}): Egress => {
  const egress = createEgress({ allow: '127.0.0.1', local: false, ...settings });
  t.teardown(() => egress.close());
  return egress;
};

for (const address of publicAddresses) {
  test(`${address} is public`, (t) => {
    t.true(isOpen(address, parseRanges('')));
  });
}

test('what is not an address is not open, whatever is listed', (t) => {
  for (const text of ['', 'localhost', '0x7f.1', '127.1', '1.1.1.1 ', '[::1]'])
    t.false(isOpen(text, parseRanges('0.0.0.0/0,::/0')), text);
});

test('a list for one family opens nothing of the other', (t) => {
  t.false(isOpen('10.0.0.1', parseRanges('::/0')));
  t.false(isOpen('fd00::1', parseRanges('0.0.0.0/0')));
  t.true(isOpen('fd00::1', parseRanges('::/0')));
  t.true(isOpen('fe80::1%lo', parseRanges('fe80::/10')));
  t.true(isOpen('64:ff9b::10.0.0.1', parseRanges('10.0.0.0/8')));
});

for (const bad of [
  '10.0.0.0/33',
  '10.0.0/8',
  'localhost',
  'fd00::/129',
  '10.0.0.0/',
  '10.0.0.0/8/8',
  '10.0.0.0/-1',
  'fe80::1%lo/64',
  '::ffff:10.0.0.0/104',
  '1.1.1.1,nonsense',
  '10.0.0.0/8;::1',
]) {
  test(`a list with ${bad} is refused with what is wrong`, (t) => {
    t.throws(() => createEgress({ allow: bad, local: false }), { instanceOf: RangeError, message: /"[^"]+"/ });
  });
}

test('a message names the host as it was written, and nothing that it leads to', async (t) => {
  const egress = egressFor(t, { allow: '', resolve: () => Promise.resolve(['10.11.12.13']) });
  for (const [url, host] of [
    ['http://2130706433/', '2130706433'],
    ['http://０x7F.1:80/x', '０x7F.1'],
    ['HTTPS://Inner.Example:8443/?q', 'Inner.Example'],
    ['http://BÜCHER.example', 'BÜCHER.example'],
    ['http:\\\\[::1]\\', '[::1]'],
  ] as const) {
    const error = await t.throwsAsync(egress.fetch(url, ordinary), { instanceOf: EgressRefused });
    t.is(error.message, `The host ${host} may not be reached from here.`);
  }
  const polled = await t.throwsAsync(egress.lookup('mail.inner.example'), { instanceOf: EgressRefused });
  t.true(polled.message.includes('mail.inner.example'));
  t.false(JSON.stringify([polled, polled.message, polled.hint]).includes('10.11'));
});

test('a refusal is a 400 of its own code, and does not repeat a password', (t) => {
  const egress = egressFor(t);
  const error = t.throws(() => egress.check('http://user:hunter2@example.com/'), { instanceOf: EgressRefused });
  t.is(error.code, 'egress_refused');
  t.is(error.status, 400);
  t.false(error.message.includes('hunter2'));
});

test('a check refuses every form of a closed address before anything is looked up', (t) => {
  const egress = egressFor(t, { allow: '' });
  for (const host of Object.values(closedHosts))
    t.throws(() => egress.check(`http://${host}/`), { instanceOf: EgressRefused }, host);
});

test('a check gives the URL, and leaves names to the connection', (t) => {
  const egress = egressFor(t, { resolve: () => Promise.reject(new Error('not to be asked')) });
  t.is(egress.check('HTTPS://Example.com:443/a?b').href, 'https://example.com/a?b');
});

test('hosts that hold more than a host are refused', async (t) => {
  const egress = egressFor(t, { allow: '0.0.0.0/0,::/0', resolve: () => Promise.resolve(['127.0.0.1']) });
  for (const host of ['', 'a/b', 'a@b', 'a:25', 'a b', 'a?b', 'a#b', 'a\\b', '[::1', 'a\r\nb'])
    await t.throwsAsync(egress.lookup(host), { instanceOf: EgressRefused }, host);
});

test('a lookup gives every address with its family, and literals as they are', async (t) => {
  const egress = egressFor(t, { resolve: () => Promise.resolve(['1.1.1.1', '2606:4700::1111']) });
  t.deepEqual(await egress.lookup('one.example'), [
    { address: '1.1.1.1', family: 4 },
    { address: '2606:4700::1111', family: 6 },
  ]);
  t.deepEqual(await egress.lookup('[2606:4700::1111]'), [{ address: '2606:4700::1111', family: 6 }]);
  t.deepEqual(await egress.lookup('127.1'), [{ address: '127.0.0.1', family: 4 }]);
});

test('PLINTH_EGRESS_ALLOW set to nothing is not the same as not set, and a bad one stops the start', (t) => {
  const settings = {
    DATABASE_URL: 'postgres://127.0.0.1/x',
    REDIS_URL: 'redis://127.0.0.1',
    PLINTH_SECRET_KEYS: `1:${Buffer.alloc(32).toString('base64')}`,
  };
  t.is(loadConfig(settings).PLINTH_EGRESS_ALLOW, undefined);
  t.is(loadConfig({ ...settings, PLINTH_EGRESS_ALLOW: '' }).PLINTH_EGRESS_ALLOW, '');
  t.is(loadConfig({ ...settings, PLINTH_EGRESS_ALLOW: '10.0.0.0/8, ::1' }).PLINTH_EGRESS_ALLOW, '10.0.0.0/8, ::1');
  const error = t.throws(() => loadConfig({ ...settings, PLINTH_EGRESS_ALLOW: '10.0.0.0/8,localhost' }));
  t.regex(error.message, /PLINTH_EGRESS_ALLOW: "localhost" is not an address range/);
});

test('what is open beside public addresses is said at start', (t) => {
  const noticeOf = (allow: string | undefined, local: boolean) => egressFor(t, { allow, local }).notice;
  t.regex(loopbackNotice, /loopback.*functions may not/);
  t.is(noticeOf(undefined, true), null, '`npm start` says it once for all of its processes');
  t.is(noticeOf(undefined, false), null);
  t.is(noticeOf('', true), null);
  t.regex(noticeOf('10.0.0.0/8', false) ?? '', /10\.0\.0\.0\/8/);
});
