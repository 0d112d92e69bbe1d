import test from 'ava';
import { openRuntime } from './harness.ts';
import { sameAsNode } from './same-as-node.ts';

const runtime = await openRuntime();
test.after.always(() => runtime.close());

const allParts = `
  const parts = (url) => [url.href, url.origin, url.protocol, url.username, url.password, url.host, url.hostname, url.port, url.pathname, url.search, url.hash];`;

const addresses = [
  'https://user:pa%20ss@Example.COM:443/a/../b?x=1#frag',
  'http://[::1]:8080/',
  'http://0x7f.1/',
  'http://2130706433/',
  'https://faß.ExAmple/straße?q=ü',
  'https://Ｇｏ.com/',
  'https://☕.example/\\back\\slash',
  'http://a b/',
  'http://256.256.256.256/',
  'HTTP://EXAMPLE.com:80',
  'mailto:a@b.c',
  'data:text/plain,hi there',
  'javascript:alert(1)',
  'file:///C|/x',
  'https://example.com/%zz?%zz#%zz',
  '//no-scheme',
  '',
  'https://',
  'http://a:65536/',
];

sameAsNode(runtime, {
  'the parts of addresses, and which are none': `${allParts}
    return ${JSON.stringify(addresses)}.map((text) => { try { return parts(new URL(text)) } catch (error) { return [error.name, error.code, error.input] } })`,
  'an address relative to a base': `
    return [['../c?d', 'http://a/b/c/d'], ['//x/y', 'https://a'], ['?q', 'http://a/b#c'], ['', 'http://a/b?c#d'], ['#h', 'mailto:a@b']].map(([a, b]) => URL.parse(a, b)?.href ?? null)`,
  'setters change what they name and nothing else': `${allParts}
    const url = new URL('http://a.b/c?d#e');
    url.protocol = 'https'; url.host = 'x.y:99'; url.port = '443'; url.pathname = 'é f'; url.search = 'k=v w'; url.hash = '';
    url.username = 'me'; url.password = 'p:w'; url.hostname = 'bad host'; url.port = 'nonsense';
    return parts(url)`,
  'href set to what is no address throws and changes nothing': `
    const url = new URL('http://a/'); let name; try { url.href = 'nope' } catch (error) { name = error.name } return [name, String(url)]`,
  'searchParams and the address follow each other': `
    const url = new URL('http://a/?x=1&y=2'); const params = url.searchParams;
    params.append('z', 'ä b'); const first = url.href; url.search = '?only=1'; const second = [...params]; params.delete('only');
    url.href = 'http://b/?n=3';
    return [first, second, url.search, [...params], url.searchParams === params, url.href]`,
  'JSON, text, canParse and parse': `
    return [JSON.stringify({ u: new URL('http://a') }), \`\${new URL('http://a')}\`, URL.canParse('x:y'), URL.canParse('x'), URL.parse('x'), URL.canParse('b', 'http://a')]`,
  'parameters of every kind of init': `
    return ['?a=1&a=2&b', 'a=%zz&b=%C3%A9&c=%ff+x&=e&&d=%41%4', { q: 'ü&=', n: 1 }, [['a', 'b'], ['c', 'd']], new Map([['m', '1']]), new URLSearchParams('x=1'), undefined]
      .map((init) => { const params = new URLSearchParams(init); return [String(params), [...params], params.size] })`,
  'what is no pair is refused': `return String(new URLSearchParams([['a']]))`,
  'parameters are read, changed and sorted': `
    const p = new URLSearchParams('b=1&a=2&b=3&c=4');
    const seen = [p.get('b'), p.getAll('b'), p.has('b', '3'), p.has('b', '9'), p.get('none')];
    p.delete('b', '1'); p.set('c', '~!()*\\''); p.set('d', ' '); p.append('\\ud800', '+'); p.sort();
    return [seen, String(p), [...p.keys()], [...p.values()]]`,
  'forEach and late changes while walking': `
    const p = new URLSearchParams('a=1&b=2'); const seen = [];
    p.forEach((value, name, self) => seen.push([name, value, self === p]));
    for (const [name] of p) { seen.push(name); if (seen.length < 5) p.append('late', 'x') }
    return seen`,
});
