import test from 'ava';
import { signedPartsOf } from '#domain/integrations/paypal.ts';
import { paypalHeaders } from '#test/support/paypal-server.ts';

const now = Date.UTC(2026, 0, 31);
const live = 'https://api-m.paypal.com';
const dayMs = 86_400_000;

const read = (changed: Readonly<Record<string, string>> = {}, base = live) => {
  const headers = { ...paypalHeaders('{}', new Date(now)), ...changed } as Record<string, string>;
  return signedPartsOf((name) => headers[name] ?? '', base, now);
};

test('headers as PayPal writes them are read under the names of its API', (t) => {
  const { 'paypal-transmission-id': id, ...headers } = paypalHeaders('{}', new Date(now));
  t.deepEqual(read({ ...headers, 'paypal-transmission-id': id ?? '' }), {
    auth_algo: 'SHA256withRSA',
    cert_url: headers['paypal-cert-url'] ?? '',
    transmission_id: id ?? '',
    transmission_sig: headers['paypal-transmission-sig'] ?? '',
    transmission_time: headers['paypal-transmission-time'] ?? '',
  });
  t.truthy(read({ 'paypal-cert-url': 'https://api.sandbox.paypal.com/v1/notifications/certs/CERT-1' }));
  t.truthy(read({ 'paypal-transmission-time': '2026-01-30T20:01:35Z' }));
});

const unlikely: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'another algorithm': { 'paypal-auth-algo': 'SHA1withRSA' },
  'no algorithm': { 'paypal-auth-algo': '' },
  'no signature': { 'paypal-transmission-sig': '' },
  'a signature of kilobytes': { 'paypal-transmission-sig': 'x'.repeat(501) },
  'no id': { 'paypal-transmission-id': '' },
  'an id that is too long': { 'paypal-transmission-id': 'x'.repeat(51) },
  'no certificate': { 'paypal-cert-url': '' },
  'a certificate that is nowhere': { 'paypal-cert-url': 'CERT-1' },
  'a certificate in the open': { 'paypal-cert-url': 'http://api.paypal.com/cert' },
  'a certificate of somebody else': { 'paypal-cert-url': 'https://evil.example/cert' },
  'a name that ends so': { 'paypal-cert-url': 'https://evilpaypal.com/cert' },
  'a name that begins so': { 'paypal-cert-url': 'https://api.paypal.com.evil.example/cert' },
  'a name before an @': { 'paypal-cert-url': 'https://api.paypal.com@evil.example/cert' },
  'another port': { 'paypal-cert-url': 'https://api.paypal.com:8443/cert' },
  'a file': { 'paypal-cert-url': 'file:///api.paypal.com/cert' },
  'a time that is none': { 'paypal-transmission-time': 'yesterday' },
  'a time that is a number': { 'paypal-transmission-time': '2026' },
  'a time of a month ago': { 'paypal-transmission-time': new Date(now - 30 * dayMs).toISOString() },
  'a time to come': { 'paypal-transmission-time': new Date(now + 2 * dayMs).toISOString() },
  'a header that is no ASCII': { 'paypal-transmission-id': 'é' },
};

for (const [what, changed] of Object.entries(unlikely)) {
  test(`${what} is not PayPal’s`, (t) => t.is(read(changed), null));
}

test('what stands in for PayPal may keep its certificates itself, and nobody else’s', (t) => {
  const [base, cert] = ['http://127.0.0.1:4000/paypal', 'http://127.0.0.1:4000/cert'];
  t.truthy(read({ 'paypal-cert-url': cert }, base));
  t.is(read({ 'paypal-cert-url': cert }), null);
  t.is(read({ 'paypal-cert-url': 'http://127.0.0.1:4001/cert' }, base), null);
});
