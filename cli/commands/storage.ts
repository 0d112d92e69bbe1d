import { type Register, type Run, call, confirmFirst, isOn, requireArgument } from '../cli.ts';
import { notFound, usage } from '../errors.ts';
import { bytesText } from '../text.ts';
import { type Files, withFiles } from './storage/access.ts';
import { copy, intoFolder } from './storage/copy.ts';
import { listObjects, removeObjects } from './storage/objects.ts';
import { type Place, fixedPart, globMatcher, hasGlob, readPlace, shownPlace } from './storage/place.ts';
import { transferFolder, transferObject } from './storage/transfer.ts';

interface Bucket {
  readonly id: string;
  readonly public: boolean;
  readonly created_at: string;
}

const listBuckets = async ({ cli }: Run, files: Files): Promise<void> => {
  const buckets = await call<Bucket[]>(files, `${files.root}/bucket`, { headers: files.headers });
  const rows = buckets.map(({ id, public: isPublic, created_at: created }) => ({
    bucket: `plinth://${id}/`,
    public: isPublic,
    created,
  }));
  cli.out.table(rows, buckets, 'There are no buckets.');
};

const requireBucket = async (files: Files, bucket: string): Promise<void> => {
  await call<Bucket>(files, `${files.root}/bucket/${encodeURIComponent(bucket)}`, { headers: files.headers });
};

const list = (run: Run): Promise<void> =>
  withFiles(run, async (files) => {
    const [given] = run.args;
    if (given === undefined) return listBuckets(run, files);
    const place = readPlace(given, files);
    const isGlob = hasGlob(place.name);
    const listed = isGlob ? { ...place, name: fixedPart(place.name) } : place;
    const found = await listObjects(files, listed, isGlob || isOn(run, 'recursive'));
    // The list of a bucket that is not there is empty, too.
    if (found.folders.length + found.objects.length === 0) await requireBucket(files, place.bucket);
    const isWanted = isGlob ? globMatcher(place.name) : () => true;
    const objects = found.objects.filter(({ key }) => isWanted(key));
    const rows = [
      ...found.folders.map((name) => ({ name, size: '', updated: '' })),
      ...objects.map(({ key, size, updated_at: updated }) => ({ name: key, size: bytesText(size), updated })),
    ];
    run.cli.out.table(rows, { folders: found.folders, objects }, 'There are no such objects.');
  });

const matching = async (run: Run, files: Files, place: Place): Promise<string[]> => {
  if (hasGlob(place.name)) {
    const isWanted = globMatcher(place.name);
    const { objects } = await listObjects(files, { ...place, name: fixedPart(place.name) }, true);
    return objects.map(({ key }) => key).filter(isWanted);
  }
  if (!isOn(run, 'recursive')) {
    if (place.name === '' || place.name.endsWith('/'))
      throw usage(`${shownPlace(place)} is a folder.`, 'Delete it with -r.');
    return [place.name];
  }
  const prefix = place.name === '' || place.name.endsWith('/') ? place.name : `${place.name}/`;
  return (await listObjects(files, { ...place, name: prefix }, true)).objects.map(({ key }) => key);
};

const remove = (run: Run): Promise<void> =>
  withFiles(run, async (files) => {
    const place = readPlace(requireArgument(run, 0, 'The object'), files);
    const keys = await matching(run, files, place);
    if (keys.length === 0) throw notFound(`There is no object ${shownPlace(place)}.`);
    const what =
      keys.length === 1
        ? shownPlace({ ...place, name: keys[0] ?? '' })
        : `${keys.length} objects of ${shownPlace(place)}`;
    await confirmFirst(run, `${what} will be deleted.`);
    const removed = await removeObjects(files, place.bucket, keys);
    if (removed === 0) throw notFound(`There is no object ${shownPlace(place)}.`);
    run.cli.out.say(`${removed} deleted.`);
    if (run.cli.out.isJson) run.cli.out.data({ deleted: removed }, '');
  });

const move = (run: Run): Promise<void> =>
  withFiles(run, async (files) => {
    const [given, target] = [requireArgument(run, 0, 'The source'), requireArgument(run, 1, 'The target')];
    const [from, to] = [readPlace(given, files), readPlace(target, files)];
    if (isOn(run, 'recursive')) return transferFolder(run, files, 'move', [from, to]);
    if (from.name === '' || from.name.endsWith('/'))
      throw usage(`${shownPlace(from)} is a folder.`, 'Move it with -r.');
    const place = intoFolder(to, from.name);
    await transferObject(files, 'move', from, place);
    run.cli.out.say(shownPlace(place));
    if (run.cli.out.isJson) run.cli.out.data({ moved: 1, skipped: 0 }, '');
  });

const collisionOption = '--on-collision <what>';
const collisionText = 'of files within a folder whose name is taken at the destination: skip or replace';

export const registerStorage: Register = (program, act) => {
  const storage = program.command('storage').description('files of the project; an object is plinth://bucket/path');
  storage
    .command('ls [place]')
    .description('list buckets, or the objects of a place')
    .option('-r, --recursive', 'what lies in folders, too')
    .action(act(list));
  storage
    .command('cp <from> <to>')
    .alias('upload')
    .description(
      'copy files to and from the platform; - is standard input or output; large uploads go on where they broke off',
    )
    .option('-r, --recursive', 'copy a folder with all that is in it')
    .option('-j, --jobs <number>', 'files at a time', '4')
    .option(collisionOption, `within the platform: ${collisionText}`)
    .action(act(copy));
  storage
    .command('mv <from> <to>')
    .description('move or rename an object, or with -r a folder with all that is in it')
    .option('-r, --recursive', 'move a folder; the platform does it as a job')
    .option(collisionOption, collisionText)
    .action(act(move));
  storage
    .command('rm <place>')
    .description('delete an object, those of a pattern, or with -r a folder')
    .option('-r, --recursive', 'delete a folder with all that is in it')
    .action(act(remove));
};
