import test from 'ava';
import { fitsPattern, redirectFor } from '#domain/end-users/redirects.ts';

/** The wildcards as a regular expression, which takes exponential time. */
const formOf = (pattern: string): RegExp => {
  const isOpen = pattern.endsWith('**');
  const fixed = isOpen ? pattern.slice(0, -2) : pattern;
  const pieces = fixed.split('*').map((text) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`));
  return new RegExp(`^${pieces.join('[^/?#]+')}${isOpen ? '[^#]*' : ''}$`);
};

test('a pattern fits the addresses that its regular expression fits', (t) => {
  const dice = (() => {
    let state = 7;
    return (sides: number): number => {
      state = (state * 48_271) % 2_147_483_647;
      return state % sides;
    };
  })();
  const textOf = (letters: string, maxLength: number): string =>
    Array.from({ length: dice(maxLength + 1) }, () => letters[dice(letters.length)]).join('');
  let fitting = 0;
  for (let round = 0; round < 50_000; round += 1) {
    const pattern = textOf(round % 2 === 0 ? 'ab/*' : 'a/?#.**', 8);
    const address = textOf(round % 2 === 0 ? 'ab/' : 'a/?#.', 9);
    const expected = formOf(pattern).test(address);
    if (expected) fitting += 1;
    if (fitsPattern(pattern, address) !== expected) t.fail(`${pattern} and ${address}`);
  }
  t.true(fitting > 500, `${fitting} fit`);
});

test('twenty wildcards refuse an address that fits until its end', (t) => {
  const settings = { site_url: 'https://shop.example/', redirect_allow_list: [`https://a.co/${'*a'.repeat(20)}`] };
  const fitting = `https://a.co/${'a'.repeat(5000)}`;
  t.is(redirectFor(settings, `${fitting}!`), settings.site_url);
  t.is(redirectFor(settings, fitting), fitting);
});

const allows = (pattern: string, wanted: string): boolean =>
  redirectFor({ site_url: null, redirect_allow_list: [pattern] }, wanted) === wanted;

test('a wildcard stands for a part of the path, and two at the end for the rest', (t) => {
  t.true(allows('https://a.co/in/*', 'https://a.co/in/one'));
  for (const other of ['', 'one/two', 'one?two', '?one'])
    t.false(allows('https://a.co/in/*', `https://a.co/in/${other}`), other);
  for (const any of ['', 'one', 'one/two?three']) t.true(allows('https://a.co/**', `https://a.co/${any}`), any);
  t.true(allows('https://a.co/*/done', 'https://a.co/one/done'));
  t.false(allows('https://a.co/*/done', 'https://a.co/one/two/done'));
});
