import test from 'ava';
import { maskConfig, maskSecret, mergeConfig } from '#domain/integrations/config.ts';
import { ServiceError } from '#lib/errors.ts';

const paypal = {
  client_id: 'client-id-of-an-app',
  client_secret: 'client-secret-of-an-app-0001',
  webhook_id: 'WH1',
  environment: 'sandbox',
};
const stripe = { secret_key: 'sk_live_0123456789abcdef', webhook_secret: 'whsec_0123456789abcdefghij' };

const refusal = (work: () => unknown): { code: string; paths: string[] } | null => {
  try {
    work();
    return null;
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    return { code: error.code, paths: (error.details as { path: string }[]).map(({ path }) => path) };
  }
};

test('a masked secret shows its prefix and its last four characters, a short one nothing', (t) => {
  t.is(maskSecret('sk_live_0123456789abcdef'), 'sk_live_••••cdef');
  t.is(maskSecret('whsec_0123456789abcdefghij'), 'whsec_••••ghij');
  t.is(maskSecret('https://hooks.slack.com/services/T0/B0/abcdefghijkl'), 'https://hooks.slack.com/••••ijkl');
  t.is(maskSecret('EGnHDxDqRPdaLdZz8iCr8N7'), '••••r8N7');
  for (const short of ['x', 'sk_live_123', 'sk_live_12345678901', 'password1234']) t.is(maskSecret(short), '••••••••');
});

test('no masked secret shows so much that less than twelve characters are left to guess', (t) => {
  for (const prefix of ['', 'sk_', 'sk_live_', 'https://h.example/']) {
    for (let length = 1; length < 40; length += 1) {
      const secret = `${prefix}${'q'.repeat(length)}`;
      const hidden = secret.length - maskSecret(secret).replaceAll('•', '').length;
      t.true(hidden >= Math.min(12, length), secret);
    }
  }
});

test('a config as it is shown, sent back, changes nothing', (t) => {
  t.deepEqual(mergeConfig('stripe', stripe, maskConfig('stripe', stripe)), stripe);
  t.deepEqual(mergeConfig('paypal', paypal, maskConfig('paypal', paypal)), paypal);
});

test('secrets that are left out stay, other fields that are left out go', (t) => {
  const fn = crypto.randomUUID();
  t.deepEqual(mergeConfig('stripe', { ...stripe, function_id: fn }, {}), stripe);
  t.deepEqual(mergeConfig('stripe', stripe, { secret_key: 'sk_new' }), { ...stripe, secret_key: 'sk_new' });
});

test('a masked value that stands for nothing, or for another secret, is refused', (t) => {
  const masked = maskConfig('stripe', stripe);
  const path = { code: 'validation_failed', paths: ['config.secret_key'] };
  t.deepEqual(
    refusal(() => mergeConfig('stripe', null, masked)),
    path,
  );
  t.deepEqual(
    refusal(() => mergeConfig('stripe', { ...stripe, secret_key: 'sk_other' }, masked)),
    path,
  );
  t.deepEqual(
    refusal(() => mergeConfig('stripe', stripe, { secret_key: '••••' })),
    path,
  );
});

test('another base_url needs the secrets again, since they would go to somebody else', (t) => {
  const moved = { ...paypal, base_url: 'https://evil.example' };
  const needed = { code: 'secret_required', paths: ['config.client_secret'] };
  const { client_secret: _, ...withoutSecret } = moved;
  t.deepEqual(
    refusal(() => mergeConfig('paypal', paypal, withoutSecret)),
    needed,
  );
  t.deepEqual(
    refusal(() => mergeConfig('paypal', paypal, maskConfig('paypal', moved))),
    needed,
  );
  // Back to PayPal's own is another one, too.
  t.deepEqual(
    refusal(() => mergeConfig('paypal', moved, maskConfig('paypal', paypal))),
    needed,
  );
  t.deepEqual(mergeConfig('paypal', paypal, moved), moved);
  t.deepEqual(mergeConfig('paypal', moved, withoutSecret), moved);
});

const bad: readonly (readonly [string, Parameters<typeof mergeConfig>[0], Record<string, unknown>, string])[] = [
  ['a missing secret', 'stripe', { secret_key: 'sk_1' }, 'config.webhook_secret'],
  ['an unknown field', 'stripe', { ...stripe, base_url: 'https://x.example' }, 'config'],
  ['a field of another type', 'stripe', { ...stripe, secret_key: 1 }, 'config.secret_key'],
  ['null for a secret', 'stripe', { ...stripe, secret_key: null }, 'config.secret_key'],
  ['an empty secret', 'stripe', { ...stripe, secret_key: '' }, 'config.secret_key'],
  ['a key with a line break', 'stripe', { ...stripe, secret_key: 'sk_1\r\nX-A: b' }, 'config.secret_key'],
  ['a key with NUL', 'razorpay', { key_id: 'a\0', key_secret: 'b', webhook_secret: 'c' }, 'config.key_id'],
  ['a key that is too long', 'stripe', { ...stripe, secret_key: 'x'.repeat(513) }, 'config.secret_key'],
  ['a function_id that is none', 'stripe', { ...stripe, function_id: 'fn' }, 'config.function_id'],
  ['an environment that is none', 'paypal', { ...paypal, environment: 'test' }, 'config.environment'],
  ['a base_url with a query', 'paypal', { ...paypal, base_url: 'https://x.example/?a' }, 'config.base_url'],
  ['a base_url with a user', 'paypal', { ...paypal, base_url: 'https://u:p@x.example' }, 'config.base_url'],
  [
    'a from_email with a line break',
    'resend',
    { api_key: 're_1', from_email: 'a@b.example\nBcc: c@d' },
    'config.from_email',
  ],
  ['a from_email that is none', 'resend', { api_key: 're_1', from_email: 'Ann' }, 'config.from_email'],
  ['an address that is no URL', 'slack', { webhook_url: 'hooks.slack.com' }, 'config.webhook_url'],
  ['an address of another kind', 'slack', { webhook_url: 'ftp://hooks.slack.com/a' }, 'config.webhook_url'],
  ['no events', 'slack', { webhook_url: 'https://a.example', events: [] }, 'config.events'],
  ['events twice', 'slack', { webhook_url: 'https://a.example', events: ['*', '*'] }, 'config.events'],
];

for (const [what, provider, config, path] of bad) {
  test(`${provider}: ${what} is refused, and the message does not repeat the config`, (t) => {
    t.deepEqual(
      refusal(() => mergeConfig(provider, null, config)),
      { code: 'validation_failed', paths: [path] },
    );
  });
}

test('a name before the address, and a chat without events, are fine', (t) => {
  const resend = { api_key: 're_1', from_email: 'Ann Ö. <ann@mail.example>' };
  t.deepEqual(mergeConfig('resend', null, resend), resend);
  const chat = { webhook_url: 'https://hooks.slack.com/services/a' };
  t.deepEqual(mergeConfig('slack', null, chat), { ...chat, events: ['*'] });
});

test('__proto__ in a config is an unknown field', (t) => {
  const config = JSON.parse('{"__proto__":{"secret_key":"x"}}') as Record<string, unknown>;
  t.is(refusal(() => mergeConfig('stripe', null, config))?.code, 'validation_failed');
});
