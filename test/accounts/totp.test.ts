import test from 'ava';
import { base32, codeAt, stepAt, stepOfCode, totpUri } from '#domain/accounts/codes.ts';

const secret = Buffer.from('12345678901234567890');

test('codes are those of RFC 6238, appendix B', (t) => {
  const vectors: readonly (readonly [number, string])[] = [
    [59, '94287082'],
    [1_111_111_109, '07081804'],
    [1_111_111_111, '14050471'],
    [1_234_567_890, '89005924'],
    [2_000_000_000, '69279037'],
    [20_000_000_000, '65353130'],
  ];
  for (const [seconds, code] of vectors) t.is(codeAt(secret, stepAt(seconds * 1000), 8), code, String(seconds));
});

test('codes are those of RFC 4226, appendix D', (t) => {
  const codes = Array.from({ length: 10 }, (_, counter) => codeAt(secret, counter));
  t.deepEqual(codes, [
    '755224',
    '287082',
    '359152',
    '969429',
    '338314',
    '254676',
    '287922',
    '162583',
    '399871',
    '520489',
  ]);
});

test('base32 is that of RFC 4648, section 10, without padding', (t) => {
  const vectors = {
    '': '',
    f: 'MY',
    fo: 'MZXQ',
    foo: 'MZXW6',
    foob: 'MZXW6YQ',
    fooba: 'MZXW6YTB',
    foobar: 'MZXW6YTBOI',
  };
  for (const [plain, encoded] of Object.entries(vectors)) t.is(base32(Buffer.from(plain)), encoded);
});

test('a code is known one step early and late, and only behind the one that was used last', (t) => {
  const now = 1_234_567_890_000;
  const present = stepAt(now);
  for (const step of [present - 1, present, present + 1]) {
    t.is(stepOfCode(secret, codeAt(secret, step), { now, lastStep: null }), step);
    t.is(stepOfCode(secret, codeAt(secret, step), { now, lastStep: step }), undefined);
    t.is(stepOfCode(secret, codeAt(secret, step), { now, lastStep: step - 1 }), step);
  }
  for (const step of [present - 2, present + 2]) {
    t.is(stepOfCode(secret, codeAt(secret, step), { now, lastStep: null }), undefined);
  }
  for (const code of ['', '1', '1234567', 'abcdef', `${codeAt(secret, present)} `]) {
    t.is(stepOfCode(secret, code, { now, lastStep: null }), undefined, code);
  }
});

test('an address of whatever letters stays one name in the URI', (t) => {
  const uri = new URL(totpUri(secret, 'a&secret=x?b@example.com'));
  t.is(uri.searchParams.get('secret'), base32(secret));
  t.is(decodeURIComponent(uri.pathname), '/plinth:a&secret=x?b@example.com');
});
