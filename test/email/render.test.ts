import test from 'ava';
import { defaultTemplates, previewOf, sampleVariables, templateTypes } from '#domain/email/templates.ts';
import { type Variables, renderHtml, renderSubject, textOf, unknownPlaceholders } from '#domain/email/render.ts';

const variables = { name: '<b>"Ada" & \'co\'`</b>', n: 3, user: { name: 'Grace', deep: { er: 'x' } }, empty: '' };

const html: Record<string, [template: string, text: string, missing: string[]]> = {
  'a name': ['Hi {{user.name}}!', 'Hi Grace!', []],
  'with blanks': ['{{ user.name }}{{\tn\n}}', 'Grace3', []],
  'two levels down': ['{{user.deep.er}}', 'x', []],
  'an empty value': ['[{{empty}}]', '[]', []],
  'markup in a value': ['{{name}}', '&lt;b&gt;&quot;Ada&quot; &amp; &#39;co&#39;&#96;&lt;/b&gt;', []],
  'an unknown name': ['a{{nobody}}b{{nobody}}', 'ab', ['nobody']],
  'the constructor': ['{{constructor}}', '', ['constructor']],
  'constructor.name': ['{{constructor.name}}', '', ['constructor.name']],
  'the prototype': ['{{__proto__}}', '', ['__proto__']],
  '__proto__.x': ['{{__proto__.x}}', '', ['__proto__.x']],
  'a method': ['{{toString}}{{user.toString}}', '', ['toString', 'user.toString']],
  'the length of a text': ['{{user.name.length}}', '', ['user.name.length']],
  'an object': ['{{user}}', '', ['user']],
  'three braces': ['{{{user.name}}}', '{Grace}', []],
  'three braces do not open the door for markup': [
    '{{{name}}}',
    '{&lt;b&gt;&quot;Ada&quot; &amp; &#39;co&#39;&#96;&lt;/b&gt;}',
    [],
  ],
  nested: ['{{user.{{n}}}}', '{{user.3}}', []],
  unclosed: ['{{user.name', '{{user.name', []],
  'closed only': ['user.name}}', 'user.name}}', []],
  'an expression': [
    '{{1+1}} {{user["name"]}} {{#if n}} {{> x}} {{user.name()}}',
    '{{1+1}} {{user["name"]}} {{#if n}} {{> x}} {{user.name()}}',
    [],
  ],
  'a dot too many': ['{{user.}}{{.name}}{{user..name}}', '{{user.}}{{.name}}{{user..name}}', []],
  nothing: ['{{}}{{ }}', '{{}}{{ }}', []],
};

for (const [what, [template, text, missing]] of Object.entries(html)) {
  test(`a placeholder: ${what}`, (t) => t.deepEqual(renderHtml(template, variables), { text, missing }));
}

test('what variables only inherit is missing', (t) => {
  const inheriting = Object.create({ leak: 'x', user: { name: 'y' } }) as Variables;
  t.deepEqual(renderHtml('{{leak}}{{user.name}}', inheriting), { text: '', missing: ['leak', 'user.name'] });
});

test('what a value holds is not looked at again', (t) => {
  const { text } = renderHtml('{{a}}', { a: '{{b}}', b: 'secret' });
  t.is(text, '{{b}}');
});

test('a value with the patterns of replacements is written as it is', (t) => {
  t.is(renderHtml('[{{a}}]', { a: "$& $1 $' $$" }).text, '[$&amp; $1 $&#39; $$]');
});

for (const url of [
  'javascript:alert(1)',
  ' JaVaScRiPt:alert(1)',
  'data:text/html,x',
  'vbscript:x',
  'x',
  '//evil.example',
  '',
]) {
  test(`a value that is no web address does not become a link: ${JSON.stringify(url)}`, (t) => {
    for (const template of [
      '<a href="{{u}}">',
      "<a href='{{u}}'>",
      '<a href={{u}}>',
      '<A HREF = "{{u}}">',
      '<img src="{{u}}">',
    ]) {
      t.is(renderHtml(template, { u: url }).text, template.replace('{{u}}', '#'));
    }
  });
}

const script = 'javascript:alert(1)//';
const placesOfLinks: Record<string, string> = {
  'a button': '<button formaction="{{v}}">',
  'an image set': '<img srcset="{{v}}">',
  'a refresh': '<meta http-equiv=refresh content="0;url={{v}}">',
  'a style': '<div style="background:url({{v}})">',
  'a link of SVG': '<svg><a xlink:href="{{v}}">',
  'a link behind a blank by number': '<a href="&#32;{{v}}">',
  'a link behind a control character': '<a href="\u0001{{v}}">',
  'a bare link behind a control character': '<a href=\u0001{{v}}>',
  'a link behind many blanks': `<a href="${' '.repeat(45)}{{v}}">`,
  'a link far from its tag': `<a title="${'x'.repeat(500)}>" href="{{v}}">`,
  'a link for old mail programs': '<!--[if mso]><v:rect href="{{v}}"><![endif]-->',
};

for (const [what, template] of Object.entries(placesOfLinks)) {
  test(`a value that is a script leads nowhere: ${what}`, (t) => {
    for (const v of [
      script,
      'java\tscript:alert(1)',
      '\u0001JavaScript :alert(1)',
      'data:text/html,x',
      'x;javascript:y',
    ]) {
      t.is(renderHtml(template, { v }).text, template.replace('{{v}}', '#'), JSON.stringify(v));
    }
    const url = 'https://a.example/x:y?javascript:z';
    t.regex(renderHtml(template, { v: url }).text.replaceAll('&#47;', '/'), /https:\/\/a\.example\/x:y\?javascript:z/);
  });
}

test('a script in two parts leads nowhere', (t) => {
  const { text } = renderHtml('<a href="{{a}}{{b}}"><form action=java{{b}}>', { a: 'javascript', b: ':x' });
  t.is(text, '<a href="##"><form action=java#>');
});

const bare: Record<string, string> = {
  'a value without quotes': '<a href={{v}}>x</a>',
  'a value behind an equals sign and blanks': '<a href =\n{{v}}>x</a>',
  'the middle of a value without quotes': '<a href=https://b.example/{{v}}>x</a>',
  'no value at all': '<a {{v}}>x</a>',
  'the end of a name': '<a data-{{v}}>x</a>',
  'behind a quote': `<a title="it's"{{v}}>x</a>`,
  'behind a quote in a bare value': `<b title=it's><a href={{v}} title='>'>x</a>`,
  'behind a sign in quotes': '<a title="a > b" href={{v}}>x</a>',
  'behind a comment with a quote': '<!-- <b title=" --><a title="b>" href={{v}}>x</a>',
  'a comment that old mail programs read': '<!--[if mso]><a href={{v}}>x</a><![endif]-->',
  'behind a value that is missing': '<a title={{nobody}} href="{{v}}">x</a>',
  'behind a value that is empty': '<a title={{empty}} href="{{v}}">x</a>',
};

for (const [what, template] of Object.entries(bare)) {
  test(`a value cannot add attributes: ${what}`, (t) => {
    for (const blank of [' ', '\n', '\f', '/', '\t/']) {
      const v = `https://a.example${blank}onmouseover=alert(1)`;
      const { text } = renderHtml(template, { v, empty: '' });
      t.false(/[\s/]onmouseover/.test(text), text);
      t.false(/onmouseover=/.test(text), text);
    }
  });
}

test('a value makes no tag', (t) => {
  t.is(renderHtml('<{{v}}>a</{{v}}>', { v: 'script' }).text, '<#>a</#>');
  t.is(renderHtml('<h{{v}}>a</h{{v}}>', { v: 2 }).text, '<h2>a</h2>');
});

test('a value in quotes and one between tags keep their blanks', (t) => {
  const { text } = renderHtml('<p title="for {{v}}">for {{v}}<br>{{v}}</p>', { v: 'Ada & Co = 1' });
  t.is(text, '<p title="for Ada &amp; Co = 1">for Ada &amp; Co = 1<br>Ada &amp; Co = 1</p>');
});

test('a web address becomes a link, and cannot leave its attribute', (t) => {
  t.is(
    renderHtml('<a href="{{u}}">', { u: 'https://a.example/?b=c&d="><script>' }).text,
    '<a href="https://a.example/?b=c&amp;d=&quot;&gt;&lt;script&gt;">',
  );
});

test('a subject stays one line, whatever a value holds', (t) => {
  const { text } = renderSubject('Hi {{a}}!', { a: 'x\r\nBcc: evil@example.com\0\u2028y\u2029z\u0085\t<b>' });
  t.is(text, 'Hi x Bcc: evil@example.com y z <b>!');
});

test('long and malformed templates are filled in, in time that grows with their length only', (t) => {
  const mib = 1024 * 1024;
  for (const part of [
    '{',
    '{{',
    '{{ ',
    '{{a',
    '{{a.',
    '{{a}',
    '}}',
    '{{ a . ',
    '{{a.a.a.a.a.a',
    `{{${'a'.repeat(64)}`,
    '<',
    '<!--',
    '<a b="',
    '<a b=',
  ]) {
    const template = part.repeat(Math.floor(mib / part.length));
    t.is(renderHtml(template, {}).text, template);
  }
  t.is(renderHtml('{{a}}'.repeat(mib / 8), {}).text, '');
  t.is(renderHtml(`<!--${'{{a}}'.repeat(mib / 8)}`, {}).text, '<!--');
});

test('a mail that values would make longer than 1 MB is refused', (t) => {
  const template = '{{a}}'.repeat(40_000);
  const error = t.throws(() => renderHtml(template, { a: 'x'.repeat(100) }));
  t.regex(error.message, /longer than 1 MB/);
});

test('unknown placeholders are each named once, and no more than fifty', (t) => {
  t.deepEqual(unknownPlaceholders(['{{a}}{{b}}', '{{b}}{{c.d}}{{constructor}}'], { a: 1 }), [
    'b',
    'c.d',
    'constructor',
  ]);
  const many = Array.from({ length: 500 }, (_, i) => `{{x${i}}}`).join('');
  t.is(unknownPlaceholders([many], {}).length, 50);
});

for (const type of templateTypes) {
  test(`the default template for ${type} fills every placeholder and leaves none`, (t) => {
    const preview = previewOf(type, defaultTemplates[type], 'The "Shop" & Co');
    t.deepEqual(preview.missing, []);
    t.notRegex(preview.subject + preview.html + preview.text, /\{\{|\}\}|undefined/);
    t.regex(preview.html, /The &quot;Shop&quot; &amp; Co/);
    t.regex(preview.subject, /The "Shop" & Co/);
    const url = Object.entries(sampleVariables(type, '')).find(([name]) => name.endsWith('_url'))?.[1];
    const links = url === undefined ? 0 : 2;
    t.is(preview.html.split('href="').length - 1, links, 'a button, and the address below it');
    t.is(preview.html.split(`href="${url}"`).length - 1, links);
    t.true(preview.text.includes(url ?? '123456'));
    t.regex(preview.text, /The "Shop" & Co/);
    t.true(Buffer.byteLength(preview.html) < 102_400, 'longer mails are cut by Gmail');
  });
}

test('the text part is made of hostile markup, too', (t) => {
  t.true(textOf('<div>'.repeat(50_000)).length < 1000);
  t.true(textOf('<p>x</p>'.repeat(50_000)).length < 100_000);
  t.is(textOf('<script>alert(1)</script><style>a{}</style><p>Hello</p>'), 'Hello');
  t.is(textOf('<a href="https://a.example/">https://a.example/</a>'), 'https://a.example/');
  t.notThrows(() => textOf('<table>'.repeat(20_000) + '<a href="'.repeat(5000)));
});
