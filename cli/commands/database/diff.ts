import path from 'node:path';
import { type Run, inProject, isOn, shownPath, textOption } from '../../cli.ts';
import { usage } from '../../errors.ts';
import { readText, writeWhole } from '../../files.ts';
import { draftOf } from './diff/draft.ts';
import { type Migration, checksumOf, fileOfNew, localMigrations } from './migrations.ts';
import { presentSchema, schemaOf } from './shadow.ts';

/** A file with a whole schema as if it were the only migration. */
const wholeSchema = async ({ cli }: Run, given: string): Promise<Migration> => {
  if (given.trim() === '') throw usage('--schema must not be empty.');
  const file = path.resolve(cli.cwd, given);
  const sql = await readText(file);
  return { name: 'schema', file, sql, checksum: checksumOf(sql) };
};

/**
 * Writes a draft of the migration that leads from the migrations of the folder to the project, or to a file with a
 * schema. It is never applied by itself.
 */
export const diff = async (run: Run): Promise<void> => {
  const { out } = run.cli;
  const [named, schema] = [textOption(run, 'name'), textOption(run, 'schema')];
  const file = named === undefined ? undefined : await fileOfNew(run, named);
  const wanted = schema === undefined ? undefined : await wholeSchema(run, schema);
  const project = await inProject(run);
  const made = await schemaOf(run, project, await localMigrations(run));
  const present = wanted === undefined ? await presentSchema(project) : await schemaOf(run, project, [wanted]);
  const draft = isOn(run, 'reverse') ? draftOf(present, made) : draftOf(made, present);
  if (draft === null) {
    out.say('There is no difference.');
    return out.isJson ? out.data({ draft: null, file: null }, '') : undefined;
  }
  if (file === undefined) return out.data({ draft, file: null }, draft);
  await writeWhole(file, draft);
  out.say('Read the draft, change it, then apply it with `plinth db push`:');
  out.data({ draft, file }, shownPath(run, file));
};
