import path from 'node:path';
import { type Run, call, inFolder, inProject, isOn, shownPath, textOption } from '../../cli.ts';
import { Failure, exits, usage } from '../../errors.ts';
import { normal, readIfThere, writeWhole } from '../../files.ts';
import { send, textAnswer } from '../../http.ts';
import { appliedMigrations, checksumOf, localMigrations, standings, timeName } from './migrations.ts';
import { presentSchema } from './shadow.ts';
import { checkDrift } from './status.ts';

const differs = (file: string, command: string): Failure =>
  new Failure(exits.conflict, 'differs', `${file} differs from the project.`, { hint: `Run \`${command}\`.` });

/** Whether a dump makes anything: comments and settings make nothing. */
const isEmpty = (sql: string): boolean =>
  sql
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith('--'))
    .every((line) => /^(?:set\b|select pg_catalog\.set_config)/i.test(line.trim()));

/**
 * A project that was made by hand gets its schema as the first migration, which counts as applied: the platform's own
 * function records it, as a push does.
 */
const writeBaseline = async (run: Run, sql: string): Promise<string | null> => {
  const project = await inProject(run);
  if (isEmpty(sql) || (await localMigrations(run)).length > 0 || (await appliedMigrations(project)).length > 0)
    return null;
  const name = `${timeName(new Date())}_remote`;
  const file = inFolder(run, 'migrations', `${name}.sql`);
  await writeWhole(file, sql);
  const statement = 'select plinth_migrations.record($1::text, $2::text, 0)';
  await call(project, `${project.path}/db/query`, {
    method: 'POST',
    body: { sql: statement, params: [name, checksumOf(sql)] },
  });
  return file;
};

export const pull = async (run: Run): Promise<void> => {
  const { out } = run.cli;
  const project = await inProject(run);
  const sql = await presentSchema(project);
  const file = inFolder(run, 'schema.sql');
  const isSame = (await readIfThere(file)) === sql;
  if (isOn(run, 'check')) {
    if (!isSame) throw differs(shownPath(run, file), 'plinth db pull');
    out.say('The schema is as in the file.');
    const local = await localMigrations(run);
    await checkDrift(run, project, { local, all: standings(local, await appliedMigrations(project)) });
    return out.isJson ? out.data({ file, changed: false }, '') : undefined;
  }
  if (!isSame) await writeWhole(file, sql);
  out.say(isSame ? `${shownPath(run, file)} is up to date.` : `Wrote ${shownPath(run, file)}.`);
  const baseline = await writeBaseline(run, sql);
  if (baseline !== null) out.say(`Wrote ${shownPath(run, baseline)}, which counts as applied.`);
  if (out.isJson) out.data({ file, changed: !isSame, baseline }, '');
};

export const types = async (run: Run): Promise<void> => {
  const { out, cwd } = run.cli;
  const project = await inProject(run);
  const request = { method: 'POST', body: {}, headers: { accept: '*/*' } };
  const response = await send(project, `${project.path}/db/types`, request);
  const text = normal(await textAnswer(project, response, 'text/plain'));
  const named = textOption(run, 'output');
  if (named === undefined) {
    if (isOn(run, 'check')) throw usage('--check needs --output: the file to compare with.');
    return out.data({ types: text }, text);
  }
  if (named.trim() === '') throw usage('--output must not be empty.');
  const file = path.resolve(cwd, named);
  const isSame = (await readIfThere(file)) === text;
  if (isOn(run, 'check') && !isSame) throw differs(shownPath(run, file), `plinth db types --output ${named}`);
  if (!isSame) await writeWhole(file, text);
  out.say(isSame ? `${shownPath(run, file)} is up to date.` : `Wrote ${shownPath(run, file)}.`);
  if (out.isJson) out.data({ file, changed: !isSame }, '');
};
