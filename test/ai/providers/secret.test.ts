import test from 'ava';
import { explainFault, sentenceOf, createSecretFilter } from '#domain/ai/gateway/faults.ts';
import { ProviderFault } from '#domain/ai/providers/dialect.ts';

const withoutSecret = (text: string, key: string): string => createSecretFilter(key)(text);

const secret = 'sk-proj/Ab1+cdEF2ghIJ3klMN4op';

test('a key is taken out in whatever form it is written, and the words around it stay', (t) => {
  for (const form of [
    secret,
    secret.replaceAll('/', '\\/'),
    secret.replaceAll('/', '\\\\/'),
    secret.replaceAll('+', '\\u002B'),
    encodeURIComponent(secret),
    encodeURIComponent(secret).toLowerCase().replace('ab1', 'Ab1').replace('cdef2ghij3klmn4op', 'cdEF2ghIJ3klMN4op'),
  ])
    t.is(withoutSecret(`Bad key ${form}, yes 50%.`, secret), 'Bad key [key], yes 50%.', form);
  t.is(withoutSecret(`${secret} and ${secret}`, secret), '[key] and [key]');
});

test('of a key in base64 no eight characters are left, wherever in it the key stands', (t) => {
  for (const before of ['', 'a', 'ab', 'user:']) {
    for (const coding of ['base64', 'base64url'] as const) {
      const form = Buffer.from(before + secret).toString(coding);
      const clean = withoutSecret(`Bad ${form}.`, secret);
      t.regex(clean, /\[key\]/);
      for (let at = before.length + 3; at + 8 <= form.length - 4; at += 1)
        t.false(clean.includes(form.slice(at, at + 8)));
    }
  }
});

test('a piece of eight characters is taken out, a shorter one may stay', (t) => {
  t.is(withoutSecret('it ends with MN4op', secret), 'it ends with MN4op');
  t.is(withoutSecret(`it begins with ${secret.slice(0, -1)}…`, secret), 'it begins with [key]…');
  t.is(withoutSecret(`in it is ${secret.slice(9, 17)}.`, secret), 'in it is [key].');
  t.is(withoutSecret('a key of seven: 1234567', '1234567'), 'a key of seven: [key]');
  t.is(withoutSecret('no word is a key', 'word'), 'no word is a key');
  t.is(withoutSecret('', secret), '');
});

test('a key that looks like an escape is found as it is', (t) => {
  for (const odd of ['ab%41cdef-12345', String.raw`ab\u0041cdef-12345`])
    t.is(withoutSecret(`Bad ${odd}!`, odd), 'Bad [key]!');
});

test('what is looked for of a key is made once, however many faults repeat it', (t) => {
  let read = 0;
  const target = {
    baseUrl: 'https://models.example.com',
    isVendor: false,
    get apiKey() {
      read += 1;
      return secret;
    },
  };
  const fault = new ProviderFault('auth', `Bad key ${secret}.`, { status: 401 });
  for (let time = 0; time < 3; time += 1) {
    t.regex(sentenceOf({ provider: 'openai', target }, fault), /Bad key \[key\]\.$/);
    t.false(String(explainFault({ provider: 'openai', target }, fault)).includes(secret));
  }
  t.is(read, 1);
});
