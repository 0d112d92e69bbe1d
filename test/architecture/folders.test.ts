import path from 'node:path';
import test from 'ava';
import { filesOf } from './source.ts';

const importForm = /(?:\bfrom|\bimport)\s*\(?\s*'([#.][^']+)'/g;

/**
 * The folder of the domain that a file is in, e.g. `domain/jobs`; null for files elsewhere and for
 * `domain/platform.ts`.
 */
const folderOf = (file: string): string | null => /^domain\/[^/]+(?=\/)/.exec(file)?.[0] ?? null;

const targetOf = (file: string, specifier: string): string =>
  specifier.startsWith('#') ? specifier.slice(1) : path.posix.join(path.posix.dirname(file), specifier);

/**
 * The imports between the folders of the domain, each with one file that has it. Types count, too: they are read first.
 */
const importsBetween = (files: readonly { readonly name: string; readonly text: string }[]): Map<string, string> => {
  const found = new Map<string, string>();
  for (const { name, text } of files) {
    const from = folderOf(name);
    for (const [, specifier = ''] of text.matchAll(importForm)) {
      const to = folderOf(targetOf(name, specifier));
      if (from !== null && to !== null && from !== to) found.set(`${from} → ${to}`, name);
    }
  }
  return found;
};

/**
 * Folders that import each other, be it by way of others: what is left when those without imports or importers are
 * gone.
 */
const circlesOf = (imports: ReadonlyMap<string, string>): string[] => {
  let edges = [...imports.keys()].map((edge) => edge.split(' → '));
  for (let before = -1; before !== edges.length;) {
    before = edges.length;
    const from = new Set(edges.map(([folder]) => folder));
    const to = new Set(edges.map(([, folder]) => folder));
    edges = edges.filter(([a, b]) => from.has(b) && to.has(a));
  }
  return edges.map((edge) => `${edge.join(' → ')} (${imports.get(edge.join(' → '))})`);
};

const imports = importsBetween(filesOf(['domain']).filter(({ name }) => name.endsWith('.ts')));

test('the folders of the domain import one way: none of them depends on itself by way of others', (t) => {
  t.true(imports.size > 20, 'imports are found');
  t.deepEqual(circlesOf(imports), []);
});

const file = (name: string, specifier: string) => ({ name, text: `import { x } from '${specifier}';` });

test('a circle of three folders is found', (t) => {
  const files = [
    file('domain/a/a.ts', '#domain/b/b.ts'),
    file('domain/b/b.ts', '../c/c.ts'),
    file('domain/c/deep/c.ts', '#domain/a/a.ts'),
    file('domain/c/c.ts', '#domain/d/d.ts'),
  ];
  t.deepEqual(circlesOf(importsBetween(files)), [
    'domain/a → domain/b (domain/a/a.ts)',
    'domain/b → domain/c (domain/b/b.ts)',
    'domain/c → domain/a (domain/c/deep/c.ts)',
  ]);
});
