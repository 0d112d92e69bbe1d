import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { type WebhookScene, receiverUrl, webhookScene } from './api-scene.ts';

const platform = usePlatform(test, { worker: false, shared: true });

let scene: WebhookScene;

test.before(async () => {
  scene = await webhookScene(platform());
});

const whsec = (bytes: number): string => `whsec_${Buffer.alloc(bytes, 7).toString('base64')}`;

for (const [what, change, path, message] of [
  ['no URL', { url: undefined }, 'url', null],
  ['another scheme', { url: 'ftp://example.com/' }, 'url', /http or https/],
  ['no URL at all', { url: 'example' }, 'url', /http or https/],
  ['a line break in the URL', { url: 'http://example.com/\r\nx: y' }, 'url', /http or https/],
  ['a user in the URL', { url: 'http://u:p@example.com/' }, 'url', /without a user name/],
  ['a long URL', { url: `http://example.com/${'x'.repeat(2040)}` }, 'url', null],
  ['a private address', { url: 'http://10.0.0.1/' }, 'url', /10\.0\.0\.1 may not be reached/],
  ['a private address in disguise', { url: 'http://0xa9fea9fe/' }, 'url', /0xa9fea9fe may not be reached/],
  ['no events', { events: [] }, 'events', null],
  ['too many events', { events: Array.from({ length: 101 }, (_, n) => `table.t${n}.*`) }, 'events', null],
  ['an event twice', { events: ['*', 'db.insert', '*'] }, 'events.2', /twice/],
  ['an event of nobody', { events: ['db.inserted'] }, 'events.0', /did you mean db\.insert\?/],
  ['an event in other letters', { events: ['auth.login', 'Auth.Signup'] }, 'events.1', /did you mean auth\.signup\?/],
  ['a test', { events: ['test.ping'] }, 'events.0', /is no event/],
  ['a table without an operation', { events: ['table.users'] }, 'events.0', /did you mean table\.users\.\*\?/],
  ['an operation in small letters', { events: ['table.users.insert'] }, 'events.0', /table\.users\.INSERT\?/],
  ['a pattern of tables', { events: ['table.*.INSERT'] }, 'events.0', /did you mean db\.insert\?/],
  ['a pattern of tables in SQL', { events: ['table.%.delete'] }, 'events.0', /did you mean db\.delete\?/],
  ['a beginning of tables', { events: ['table.user*.*'] }, 'events.0', /did you mean table\.\*\?/],
  ['a pattern of tables without an operation', { events: ['table.%'] }, 'events.0', /did you mean table\.\*\?/],
  ['a table without a name', { events: ['table..INSERT'] }, 'events.0', /names no table; did you mean db\.insert\?/],
  ['nothing but dots', { events: ['table..'] }, 'events.0', /did you mean table\.\*\?/],
  ['a table whose name is too long', { events: [`table.${'ü'.repeat(32)}.*`] }, 'events.0', /63 bytes/],
  ['a payment provider of nobody', { events: ['payments.strip.*'] }, 'events.0', /payments\.stripe\.\*\?/],
  ['a payment without a type', { events: ['payments.stripe'] }, 'events.0', /payments\.stripe\.\*\?/],
  ['a strange type of payment', { events: ['payments.stripe.a b'] }, 'events.0', /is no type/],
  ['a NUL in an event', { events: ['table.a\0b.*'] }, 'events.0', /NUL/],
  ['a short secret', { secret: '1234567' }, 'secret', /8 to 256/],
  ['a long secret', { secret: 'x'.repeat(257) }, 'secret', null],
  ['a secret with a line break', { secret: '12345678\n' }, 'secret', /8 to 256/],
  ['a secret that is no base64', { secret: 'whsec_not base64 at all!' }, 'secret', /8 to 256|base64/],
  ['a secret in the other base64', { secret: `whsec_${'-_'.repeat(20)}` }, 'secret', /base64/],
  ['a short key', { secret: whsec(23) }, 'secret', /24 to 64/],
  ['a long key', { secret: whsec(65) }, 'secret', /24 to 64/],
  ['two minds about being active', { active: true, is_active: false }, 'active', /must not differ/],
  ['no rate', { rate_per_second: 0 }, 'rate_per_second', null],
  ['a rate beyond all', { rate_per_second: 1001 }, 'rate_per_second', null],
  ['a blank name', { name: ' ' }, 'name', null],
  ['a field that nobody knows', { kind: 'slack' }, '', /kind/],
] as const satisfies readonly (readonly [string, Record<string, unknown>, string, RegExp | null])[]) {
  test(`a webhook with ${what} is refused, when it is made and when it is changed`, async (t) => {
    const { ask, made } = scene;
    const create = await ask('POST', '/webhooks', { url: receiverUrl, events: ['*'], ...change });
    const answers = [create];
    // Fields that a change leaves out stay.
    if (what !== 'no URL') answers.push(await ask('PUT', `/webhooks/${await made()}`, change));
    for (const { status, body } of answers) {
      t.is(status, 400);
      t.is(body.code, 'validation_failed');
      t.is(body.details[0].path, path);
      if (message) t.regex(body.details[0].message, message);
    }
  });
}

for (const events of [
  ['*'],
  ['auth.*', 'user.*', 'users.*', 'db.*', 'database.*', 'table.*', 'storage.*', 'functions.*', 'payments.*'],
  ['table.a table.with.dots.UPDATE', 'table.ü.*'],
  ['payments.stripe.customer.*', 'payments.stripe.customer.subscription.*'],
  ['payments.stripe.invoice.paid', 'payments.paypal.PAYMENT.CAPTURE.COMPLETED', 'payments.razorpay.payment.*'],
]) {
  test(`${events.join(', ')} can be subscribed to`, async (t) => {
    const { ask } = scene;
    const { status, body } = await ask('POST', '/webhooks', { url: receiverUrl, events });
    t.is(status, 201);
    t.deepEqual(body.events, events);
  });
}

test('secrets of 8 printable characters and of a key between 24 and 64 bytes are taken', async (t) => {
  const { ask } = scene;
  for (const secret of ['!"#$%&~,', 'x'.repeat(256), whsec(24), whsec(25).replaceAll('=', ''), whsec(64)]) {
    t.is((await ask('POST', '/webhooks', { url: receiverUrl, events: ['*'], secret })).body.secret, secret);
  }
});
