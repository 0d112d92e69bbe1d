import { existsSync, globSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { allSettings } from '#queues/settings.ts';
import { blocksOf, codeSpansOf, linksOf, readDocument, root } from './markdown.ts';

const documents = [
  'README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'docs/operations.md',
  'docs/operations/backup.md',
  'docs/operations/scaling.md',
  ...globSync('docs/decisions/*.md', { cwd: root }),
];

const madeWhileRunning = /^\.data/;
const isPath = (code: string): boolean =>
  !madeWhileRunning.test(code) && /^\.?\w[\w.-]*(\/[\w.-]+)*(\/|\.(ts|js|cjs|mjs|md|json|sql|example))$/.test(code);

const isOurs = (name: string): boolean => name !== 'node_modules' && name !== '.git' && !madeWhileRunning.test(name);

/** Every file's own name, for those that are named without their folder. */
const fileNames = new Set(
  readdirSync(root, { withFileTypes: true })
    .filter(({ name }) => isOurs(name))
    .flatMap((entry) =>
      entry.isDirectory()
        ? readdirSync(path.join(root, entry.name), { recursive: true, encoding: 'utf8' })
        : [entry.name],
    )
    .map((file) => path.basename(file)),
);

const isThere = (named: string): boolean =>
  named.includes('/') ? existsSync(path.join(root, named)) : fileNames.has(named);

const upperCase = /^[A-Z][A-Z0-9_]{2,}$/;
// Words of PostgreSQL, Redis and Unix that look like settings, and names in examples.
const foreign =
  /^(CREATEDB|CREATEROLE|BYPASSRLS|CONFIG_HZ|SCHED_IDLE|M_PERTURB|PYTHONMALLOC|GET|POST|PATCH|DELETE|CALL|VACUUM|REINDEX|CONCURRENTLY|EXPLAIN|MULTI|READONLY|UNBLOCKED|SIGTERM|SIGINT|RLIMIT_\w+|HOME|PATH|NODE_COMPILE_CACHE|PG[A-Z]+|CONTROL|BACKUP)$/;

const shellLinesOf = (document: string): string[] =>
  blocksOf(document).flatMap(({ language, text }) => (language === 'sh' ? text.split('\n') : []));

const settingsNamedIn = (document: string): string[] => [
  ...codeSpansOf(document)
    .map((code) => code.split('=')[0] ?? '')
    .filter((code) => upperCase.test(code)),
  ...shellLinesOf(document).flatMap((line) => /^export (\w+)=/.exec(line)?.[1] ?? []),
  ...[...document.matchAll(/\bPLINTH_\w+/g)].map(([name]) => name),
];

const { scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>;
};
const npmOwn = new Set(['ci', 'install']);

/** `npm start`, `npm run check`, `PORT=3100 npm start`. */
const scriptsNamedIn = (document: string): string[] =>
  [...codeSpansOf(document), ...shellLinesOf(document)]
    .flatMap((command) => /^(?:\w+=\S+ )*npm (?:run )?([\w:-]+)/.exec(command)?.[1] ?? [])
    .filter((name) => !npmOwn.has(name));

const squeezed = (text: string): string => text.replaceAll(/\s+/g, ' ').trim();

/** A block that begins with `// some/file.ts` quotes that file. */
const quotesIn = (document: string): { file: string; code: string }[] =>
  blocksOf(document).flatMap(({ text }) => {
    const [, file = '', code = ''] = /^\/\/ ([\w./-]+\.ts)\n([\s\S]+)$/.exec(text) ?? [];
    return file === '' ? [] : [{ file, code }];
  });

for (const file of documents) {
  const document = readDocument(file);

  test(`what ${file} names is there: files, settings, npm scripts`, (t) => {
    const folder = path.join(root, path.dirname(file));
    const missing = {
      files: codeSpansOf(document).filter((code) => isPath(code) && !isThere(code)),
      links: linksOf(document).filter((link) => !existsSync(path.join(folder, link))),
      settings: settingsNamedIn(document).filter((name) => !(name in allSettings.shape) && !foreign.test(name)),
      scripts: scriptsNamedIn(document).filter((name) => !(name in scripts)),
    };
    t.deepEqual(missing, { files: [], links: [], settings: [], scripts: [] });
  });

  const quotes = quotesIn(document);
  if (quotes.length === 0) continue;
  test(`the code that ${file} quotes is in the files that it names`, (t) => {
    for (const quote of quotes) {
      const source = readFileSync(path.join(root, quote.file), 'utf8');
      t.true(squeezed(source).includes(squeezed(quote.code)), `${quote.file}:\n${quote.code}`);
    }
  });
}
