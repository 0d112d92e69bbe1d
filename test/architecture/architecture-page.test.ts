import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { root } from './source.ts';

test('every file that docs/architecture.md names exists', (t) => {
  const page = readFileSync(path.join(root, 'docs/architecture.md'), 'utf8');
  const named = [...page.matchAll(/`((?:[\w.-]+\/)+[\w.-]+\.\w+)`/g)].map(([, name = '']) => name);
  t.true(named.length > 0);
  t.deepEqual(
    named.filter((name) => !existsSync(path.join(root, name))),
    [],
  );
});
