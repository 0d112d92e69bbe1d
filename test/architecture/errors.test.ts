import test from 'ava';
import { errorStatus } from '#lib/errors.ts';
import { filesOf } from './source.ts';

const sources = filesOf(['api', 'domain', 'lib', 'queues', 'workers']).filter((file) => file.name !== 'lib/errors.ts');
const table = Object.keys(errorStatus);

test('every error code that is thrown is in the table', (t) => {
  const thrown = sources.flatMap(({ name, text }) =>
    [...text.matchAll(/new ServiceError\(\s*'([^']*)'/g)].map((match) => ({ name, code: match[1] ?? '' })),
  );
  t.true(thrown.length > 20, 'the search finds the throws');
  for (const { name, code } of thrown) t.true(table.includes(code), `${code} in ${name}`);
});

test('every error code of the table is used somewhere', (t) => {
  const own = filesOf(['lib']).find((file) => file.name === 'lib/errors.ts')?.text ?? '';
  for (const code of table) {
    const used = sources.some(({ text }) => text.includes(`'${code}'`)) || own.includes(`new ServiceError('${code}'`);
    t.true(used, code);
  }
});

test('codes are lower snake_case and statuses those of the contract', (t) => {
  for (const [code, status] of Object.entries(errorStatus)) {
    t.regex(code, /^[a-z]+(_[a-z]+)*$/);
    t.true(status >= 400 && status < 600, code);
  }
});

test('nothing but a ServiceError decides the status of an error', (t) => {
  for (const { name, text } of filesOf(['api', 'domain'])) t.notRegex(text, /ctx\.throw\(|http-errors/, name);
});
