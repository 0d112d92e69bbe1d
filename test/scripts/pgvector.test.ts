import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { findVector } from '#scripts/infra/pgvector.ts';
import type { PostgresPrograms } from '#scripts/infra/postgres-programs.ts';
import { temporaryFolder } from './support.ts';

/** An installation that seems to have pgvector, compiled for `processor`. Its version exists nowhere. */
const installation = (t: ExecutionContext, processor: string): PostgresPrograms => {
  const folder = temporaryFolder(t);
  const [library, extensions] = [path.join(folder, 'lib'), path.join(folder, 'extension')];
  for (const place of [library, extensions]) mkdirSync(place);
  writeFileSync(path.join(extensions, 'vector.control'), '');
  writeFileSync(path.join(library, 'vector.processor'), processor);
  return { major: 999, bin: folder, library, extensions, isEmbedded: true };
};

test('pgvector that was compiled for another processor is put out of use', (t) => {
  const programs = installation(t, 'A processor of long ago');
  t.is(findVector(programs), null);
  t.false(existsSync(path.join(programs.extensions, 'vector.control')));
});

for (const processor of ['', cpus()[0]?.model ?? '']) {
  test(`pgvector ${processor === '' ? 'from a package' : 'compiled for this processor'} is used`, (t) => {
    t.true(findVector(installation(t, processor))?.available);
  });
}
