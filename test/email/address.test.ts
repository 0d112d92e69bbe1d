import test from 'ava';
import { asciiDomain, domainOf, isAddress, isOneLine } from '#domain/email/address.ts';

const good = [
  'a@b.co',
  'first.last+tag@sub.example.com',
  "o'brien@example.com",
  '!#$%&*/=?^_`{|}~-@example.com',
  'jürgen@müller.example',
  '用户@例子.广告',
  'δοκιμή@παράδειγμα.δοκιμή',
  `${'a'.repeat(64)}@example.com`,
  `a@${'b'.repeat(63)}.example`,
];

for (const text of good) test(`is an address: ${text.slice(0, 80)}`, (t) => t.true(isAddress(text)));

const bad: Record<string, string> = {
  nothing: '',
  'no at sign': 'example.com',
  'nothing before it': '@example.com',
  'nothing behind it': 'a@',
  'no dot in the domain': 'a@localhost',
  'an address literal': 'a@[127.0.0.1]',
  'numbers for a domain': 'a@127.0.0.1',
  'two addresses': 'a@example.com,b@example.com',
  'two addresses with a semicolon': 'a@example.com;b@example.com',
  'a name before it': 'Ada <a@example.com>',
  'angle brackets': '<a@example.com>',
  'two at signs': 'a@b@example.com',
  'a blank': 'a b@example.com',
  'a blank before it': ' a@example.com',
  'a blank behind it': 'a@example.com ',
  'quoted text': '"a b"@example.com',
  'a comment': 'a(comment)@example.com',
  'a line feed': 'a@example.com\nBcc: b@example.com',
  'a carriage return': 'a@example.com\rb',
  'both in the local part': 'a\r\nRCPT TO:<b@example.com>\r\n@example.com',
  NUL: 'a\0@example.com',
  'NUL at its end': 'a@example.com\0',
  'a line separator': 'a\u2028@example.com',
  'a paragraph separator': 'a@exam\u2029ple.com',
  'a next line': 'a\u0085@example.com',
  'a soft hyphen': 'a\u00ad@example.com',
  'a zero-width space': 'a\u200b@example.com',
  'a right-to-left override': 'a\u202e@example.com',
  'half a character': 'a\ud800@example.com',
  'a dot at its beginning': '.a@example.com',
  'a dot before the at sign': 'a.@example.com',
  'two dots': 'a..b@example.com',
  'a dot at its end': 'a@example.com.',
  'a label that begins with a hyphen': 'a@-example.com',
  'a label that ends with a hyphen': 'a@example-.com',
  'an empty label': 'a@example..com',
  'a percent sign in the domain': 'a@ex%61mple.com',
  'a slash in the domain': 'a@example.com/x',
  'a port': 'a@example.com:25',
  'full-width digits for a domain': 'a@１２７.０.０.１',
  'a label of 64': `a@${'b'.repeat(64)}.example`,
  'a local part of 65': `${'a'.repeat(65)}@example.com`,
  'more than 320': `a@${'b.'.repeat(160)}example.com`,
};

for (const [what, text] of Object.entries(bad)) test(`is no address: ${what}`, (t) => t.false(isAddress(text)));

test('domains are turned into what DNS has', (t) => {
  t.is(domainOf('a@MÜLLER.example'), 'xn--mller-kva.example');
  t.is(asciiDomain('Example.COM'), 'example.com');
  t.is(asciiDomain('例え.jp'), 'xn--r8jz45g.jp');
});

test('a header is one line', (t) => {
  for (const text of ['a\nb', 'a\rb', 'a\0b', 'a\u2028b', 'a\u2029b', 'a\u0085b', 'a\x7fb', 'a\tb', '\ud800'])
    t.false(isOneLine(text));
  for (const text of ['', 'a b', 'Grüße 👋🏽', 'a: b <c@d>']) t.true(isOneLine(text));
});
