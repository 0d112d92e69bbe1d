import { type Stats, existsSync, statSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { type Run, isOn, numberOption, requireArgument } from '../../cli.ts';
import { notFound, usage } from '../../errors.ts';
import { fileFailure } from '../../files.ts';
import type { Progress } from '../../output.ts';
import { bytesText, cleanLine } from '../../text.ts';
import { type Files, withFiles } from './access.ts';
import { downloadFile, readObject } from './download.ts';
import { listObjects } from './objects.ts';
import { type Place, fixedPart, globMatcher, hasGlob, isRemote, readPlace, shownPlace } from './place.ts';
import { transferFolder, transferObject } from './transfer.ts';
import { type Upload, uploadFile, uploadStream } from './upload.ts';

const standard = '-';

/** One file on its way, whichever it is. */
interface Copy {
  readonly label: string;
  readonly size: number;
  readonly run: (progress: Progress) => Promise<void>;
}

const maxFiles = 100_000;

const filesBelow = async (folder: string, below = ''): Promise<string[]> => {
  const found: string[] = [];
  const entries = await readdir(path.join(folder, below), { withFileTypes: true }).catch((error: unknown) => {
    throw fileFailure('read', path.join(folder, below), error);
  });
  for (const entry of entries) {
    const name = below === '' ? entry.name : `${below}/${entry.name}`;
    if (entry.isDirectory()) found.push(...(await filesBelow(folder, name)));
    else if (entry.isFile()) found.push(name);
    if (found.length > maxFiles) throw usage(`There are more than ${maxFiles} files: copy them folder by folder.`);
  }
  return found;
};

const statOf = (file: string): Promise<Stats> =>
  stat(file).catch((error: unknown) => {
    throw fileFailure('read', file, error);
  });

/** A name that ends with a slash, or is none, means the folder. */
export const intoFolder = (place: Place, file: string): Place =>
  place.name === '' || place.name.endsWith('/') ? { ...place, name: place.name + path.basename(file) } : place;

const asFolder = (name: string): string => (name === '' || name.endsWith('/') ? name : `${name}/`);

const uploadOf = async (run: Run, files: Files, file: string, place: Place): Promise<Copy> => {
  const { size, mtimeMs } = await statOf(file);
  const upload: Upload = { file, size, modifiedMs: mtimeMs, place };
  return { label: shownPlace(place), size, run: (progress) => uploadFile(run.cli.env, files, upload, progress) };
};

const uploadsOf = async (run: Run, files: Files, from: string, to: Place): Promise<Copy[]> => {
  const source = path.resolve(run.cli.cwd, from);
  const found = await statOf(source);
  if (!found.isDirectory()) return [await uploadOf(run, files, source, intoFolder(to, source))];
  if (!isOn(run, 'recursive')) throw usage(`${cleanLine(from)} is a folder.`, 'Copy it with -r.');
  const root = asFolder(to.name);
  const names = await filesBelow(source);
  return Promise.all(names.map((name) => uploadOf(run, files, path.join(source, name), { ...to, name: root + name })));
};

/** Where an object is written below a folder; its name must not lead out of it. */
const inside = (folder: string, name: string): string => {
  const file = path.resolve(folder, ...name.split('/'));
  const back = path.relative(folder, file);
  if (back !== '' && !back.startsWith('..') && !path.isAbsolute(back)) return file;
  throw usage(`The object ${cleanLine(name)} would be written outside of the folder.`);
};

const downloadOf = (files: Files, place: Place, size: number, file: string): Copy => ({
  label: shownPlace(place),
  size,
  run: (progress) => downloadFile(files, place, file, progress),
});

const isFolder = (given: string, file: string): boolean =>
  /[/\\]$/.test(given) || (existsSync(file) && statSync(file).isDirectory());

const downloadOne = async (run: Run, files: Files, from: Place, to: string): Promise<Copy> => {
  if (from.name === '') throw usage('Name an object, or copy a whole bucket with -r.');
  const target = path.resolve(run.cli.cwd, to);
  const file = isFolder(to, target) ? path.join(target, path.posix.basename(from.name)) : target;
  const { objects } = await listObjects(files, from, false);
  return downloadOf(files, from, objects.find(({ key }) => key === from.name)?.size ?? 0, file);
};

/** A pattern or a folder as a choice of objects: the prefix of its objects, which of them, and what is cut off of their names. */
const choiceOf = (name: string) => {
  if (!hasGlob(name)) return { prefix: asFolder(name), isWanted: () => true, cut: asFolder(name).length };
  const prefix = fixedPart(name);
  return { prefix, isWanted: globMatcher(name), cut: prefix.lastIndexOf('/') + 1 };
};

const downloadsOf = async (run: Run, files: Files, from: Place, to: string): Promise<Copy[]> => {
  if (!hasGlob(from.name) && !isOn(run, 'recursive')) return [await downloadOne(run, files, from, to)];
  const { prefix, isWanted, cut } = choiceOf(from.name);
  const { objects } = await listObjects(files, { ...from, name: prefix }, true);
  const found = objects.filter(({ key }) => isWanted(key));
  if (found.length === 0) throw notFound(`There is no object ${shownPlace(from)}.`);
  const target = path.resolve(run.cli.cwd, to);
  return found.map(({ key, size }) => downloadOf(files, { ...from, name: key }, size, inside(target, key.slice(cut))));
};

const copyWithin = (files: Files, from: Place, to: Place): Copy => ({
  label: shownPlace(to),
  size: 0,
  run: () => transferObject(files, 'copy', from, intoFolder(to, from.name)),
});

const planOf = async (run: Run, files: Files, from: string, to: string): Promise<Copy[]> => {
  if (isRemote(from) && isRemote(to)) return [copyWithin(files, readPlace(from, files), readPlace(to, files))];
  if (isRemote(from)) return downloadsOf(run, files, readPlace(from, files), to);
  return uploadsOf(run, files, from, readPlace(to, files));
};

/** Runs all copies, some at a time; the first failure ends them. */
const runAll = async (run: Run, copies: readonly Copy[]): Promise<void> => {
  const jobs = numberOption(run, 'jobs', 4);
  if (jobs < 1 || jobs > 32) throw usage('--jobs must be from 1 to 32.');
  const total = copies.reduce((sum, { size }) => sum + size, 0);
  const label = copies.length === 1 ? (copies[0]?.label ?? '') : `${copies.length} files`;
  const progress = run.cli.out.progress(label, total);
  const queue = [...copies];
  let isOver = false;
  const next = async (): Promise<void> => {
    for (let copy = queue.shift(); copy !== undefined && !isOver; copy = queue.shift()) {
      await copy.run(progress).catch((error: unknown) => {
        isOver = true;
        throw error;
      });
    }
  };
  const ended = await Promise.allSettled(Array.from({ length: Math.min(jobs, copies.length) }, next));
  progress.end();
  const failure = ended.find((one) => one.status === 'rejected');
  if (failure) throw failure.reason;
  run.cli.out.say(`${copies.length === 1 ? label : `${copies.length} files`}  ${bytesText(total)}`);
  if (run.cli.out.isJson) run.cli.out.data({ files: copies.length, bytes: total }, '');
};

const fromStandard = async (run: Run, files: Files, to: string): Promise<void> => {
  const place = readPlace(to, files);
  if (place.name === '' || place.name.endsWith('/')) throw usage('Standard input has no name: name the object.');
  const progress = run.cli.out.progress(shownPlace(place), null);
  await uploadStream(files, place, run.cli.terminal.input as AsyncIterable<Uint8Array>, progress);
  progress.end();
  run.cli.out.say(shownPlace(place));
};

const toStandard = async (run: Run, files: Files, from: string): Promise<void> => {
  const place = readPlace(from, files);
  if (place.name === '' || hasGlob(place.name)) throw usage('Only one object can be written to standard output.');
  const quiet: Progress = { add: () => undefined, end: () => undefined };
  await readObject(files, place, run.cli.out.raw, quiet);
};

export const copy = async (run: Run): Promise<void> => {
  const [from, to] = [requireArgument(run, 0, 'The source'), requireArgument(run, 1, 'The target')];
  if (!isRemote(from) && !isRemote(to)) throw usage('One of the two must be of the form plinth://bucket/path.');
  await withFiles(run, async (files) => {
    if (from === standard) return fromStandard(run, files, to);
    if (to === standard) return toStandard(run, files, from);
    if (isRemote(from) && isRemote(to) && isOn(run, 'recursive'))
      return transferFolder(run, files, 'copy', [readPlace(from, files), readPlace(to, files)]);
    await runAll(run, await planOf(run, files, from, to));
  });
};
