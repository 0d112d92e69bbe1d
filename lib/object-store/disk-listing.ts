import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { unlessMissing } from './disk-files.ts';
import { fanMark } from './disk-paths.ts';
import type { ListedObject } from './object-store.ts';

// Names that are held at a time. A folder with more of them is read several times: memory is bounded, and order kept.
const pageNames = 50_000;

const statsAtATime = 32;

const namesIn = async (folder: string): Promise<string[]> => (await unlessMissing(readdir(folder))) ?? [];

interface Place {
  readonly name: string;
  readonly fan: string;
}

const byName = (a: Place, b: Place): number => (a.name < b.name ? -1 : 1);

/** The first names of a folder's files, in order, that come after one and begin as they should. */
const firstFiles = async (folder: string, fans: readonly string[], wanted: (name: string) => boolean) => {
  const found: Place[] = [];
  const cut = (): void => {
    found.sort(byName);
    if (found.length > pageNames) found.length = pageNames;
  };
  for (const fan of fans) {
    for (const name of await namesIn(path.join(folder, fan))) if (wanted(name)) found.push({ name, fan });
    if (found.length > 2 * pageNames) cut();
  }
  cut();
  return found;
};

async function* filesOf(folder: string, fans: readonly string[], start: string): AsyncGenerator<Place> {
  let last = '';
  for (;;) {
    const after = last;
    const page = await firstFiles(folder, fans, (name) => name > after && name.startsWith(start));
    yield* page;
    if (page.length < pageNames) return;
    last = page.at(-1)?.name ?? '';
  }
}

interface Found {
  readonly key: string;
  readonly file: string;
}

/** Keys below a prefix in the order of their bytes: the files of a folder and its subfolders are merged. */
async function* keysIn(folder: string, base: string, prefix: string): AsyncGenerator<Found> {
  const names = await namesIn(folder);
  const fans = names.filter((name) => name.startsWith(fanMark));
  const inPrefix = (below: string): boolean => below.startsWith(prefix) || prefix.startsWith(below);
  const subfolders = names.filter((name) => !name.startsWith(fanMark) && inPrefix(`${base}${name}/`));
  // `a-b` stands before `a/b`, as `-` does before `/`.
  const left = subfolders
    .map((name) => `${name}/`)
    .toSorted()
    .toReversed();
  const start = prefix.startsWith(base) ? prefix.slice(base.length) : '';
  const below = (next: string) => keysIn(path.join(folder, next), base + next, prefix);
  for await (const { name, fan } of start.includes('/') ? [] : filesOf(folder, fans, start)) {
    while ((left.at(-1) ?? name) < name) yield* below(left.pop() ?? '');
    yield { key: base + name, file: path.join(folder, fan, name) };
  }
  while (left.length > 0) yield* below(left.pop() ?? '');
}

/** `ctime`, since a copy is a second link to one file, whose `mtime` is that of the original. */
const sizeAndAge = async ({ key, file }: Found): Promise<ListedObject[]> => {
  const stats = await unlessMissing(stat(file));
  return stats === null ? [] : [{ key, size: stats.size, modifiedAt: stats.ctime }];
};

/** The objects below a prefix, in the order of their keys; one that is removed meanwhile may be missing. */
export async function* listObjects(objects: string, prefix: string): AsyncGenerator<ListedObject> {
  let batch: Found[] = [];
  for await (const found of keysIn(objects, '', prefix)) {
    batch.push(found);
    if (batch.length < statsAtATime) continue;
    yield* (await Promise.all(batch.map(sizeAndAge))).flat();
    batch = [];
  }
  yield* (await Promise.all(batch.map(sizeAndAge))).flat();
}
