import { createHmac } from 'node:crypto';
import test from 'ava';
import { Stripe } from 'stripe';
import { isSignedByRazorpay, isSignedByStripe } from '#domain/integrations/inbound.ts';

const secret = 'whsec_test_secret';
const payload = '{"id":"evt_1","amount":12345678901234567890,"name":"Zoë"}';
const body = Buffer.from(payload);

const header = (options: { at?: number; by?: string; of?: string } = {}): string =>
  Stripe.webhooks.generateTestHeaderString({
    payload: options.of ?? payload,
    secret: options.by ?? secret,
    ...(options.at !== undefined && { timestamp: options.at }),
  });

const seconds = (): number => Math.floor(Date.now() / 1000);
const v1Of = (text: string): string => /v1=([0-9a-f]+)/.exec(text)?.[1] ?? '';

test('what Stripe’s own package signs is taken', (t) => {
  t.true(isSignedByStripe({ header: header(), body, secret }));
});

test('one of several signatures is enough, wherever it stands: a secret is being rolled', (t) => {
  const at = seconds();
  const other = v1Of(header({ at, by: 'whsec_old' }));
  const good = v1Of(header({ at }));
  t.true(isSignedByStripe({ header: `t=${at},v1=${other},v1=${good}`, body, secret }));
  t.true(isSignedByStripe({ header: `t=${at}, v1=${good}, v1=${other}, v0=abc`, body, secret }));
  t.false(isSignedByStripe({ header: `t=${at},v1=${other},v1=${other}`, body, secret }));
});

test('another secret, another body, another time than was signed are refused', (t) => {
  const at = seconds();
  t.false(isSignedByStripe({ header: header({ by: 'whsec_other' }), body, secret }));
  t.false(isSignedByStripe({ header: header(), body: Buffer.from(`${payload} `), secret }));
  t.false(isSignedByStripe({ header: `t=${at + 1},v1=${v1Of(header({ at }))}`, body, secret }));
});

test('a signature is taken for 300 s before and after its time, and no second longer', (t) => {
  const now = 1_800_000_000_000;
  const at = (offset: number) => isSignedByStripe({ header: header({ at: now / 1000 + offset }), body, secret }, now);
  t.deepEqual([-301, -300, 0, 300, 301].map(at), [false, true, true, true, false]);
});

const [now, good] = [seconds(), v1Of(header({ at: seconds() }))];

for (const [what, text] of Object.entries({
  'no header': '',
  'no time': `v1=${good}`,
  'no signature': `t=${now}`,
  'a scheme that proves nothing': `t=${now},v0=${good}`,
  'two times': `t=${now},t=${now},v1=${good}`,
  'a time that is no number': `t=${now}x,v1=${good}`,
  'a time beyond all numbers': `t=${'9'.repeat(400)},v1=${good}`,
  'a negative time': `t=-1,v1=${good}`,
  'a signature that is cut': `t=${now},v1=${good.slice(0, 62)}`,
  'a signature that is no hex': `t=${now},v1=${'z'.repeat(64)}`,
  'an empty signature': `t=${now},v1=`,
  'a header of many kilobytes': `t=${now},${`v1=${'0'.repeat(64)},`.repeat(1000)}v1=${good}`,
})) {
  test(`Stripe: ${what} is refused`, (t) => {
    t.false(isSignedByStripe({ header: text, body, secret }));
  });
}

const sign = (text: string, by = 'k') => createHmac('sha256', by).update(text).digest('hex');
const signed = (text: string) => isSignedByRazorpay({ header: text, body, secret: 'k' });

test('Razorpay’s signature is the HMAC of the body’s bytes in hex', (t) => {
  t.true(signed(sign(payload)));
  t.true(signed(sign(payload).toUpperCase()));
  t.false(signed(sign(payload, 'other')));
  t.false(signed(sign(`${payload} `)));
  t.false(signed(sign(payload).slice(0, 63)));
  t.false(signed(`${sign(payload)}00`));
  t.false(signed(''));
  t.false(signed('é'.repeat(64)));
});
