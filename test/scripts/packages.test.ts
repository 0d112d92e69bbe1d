import path from 'node:path';
import test from 'ava';
import { readText, root } from './support.ts';

interface Locked {
  readonly packages: Readonly<Record<string, { readonly optionalDependencies?: Readonly<Record<string, string>> }>>;
}

test('package-lock.json names the packages of every platform, or npm ci refuses it', (t) => {
  const { packages } = JSON.parse(readText(path.join(root, 'package-lock.json'))) as Locked;
  const missing = Object.entries(packages).flatMap(([place, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter(
      (name) => !(`node_modules/${name}` in packages) && !(`${place}/node_modules/${name}` in packages),
    ),
  );
  t.deepEqual(missing, []);
});
