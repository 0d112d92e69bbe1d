import path from 'node:path';
import { type Run, call, inFolder, inProject, isOn, shownPath } from '../../cli.ts';
import { Failure, usage } from '../../errors.ts';
import { readText } from '../../files.ts';
import { clean } from '../../text.ts';
import { sqlPlace } from './place.ts';
import type { Schemas } from '../../types.ts';

type Statement = Schemas['ScriptResult'];

interface ScriptDetails {
  readonly statement?: number;
  readonly position?: number | null;
}

const maxBytes = 50_000_000;
const timeoutMs = 600_000;

const located = (run: Run, error: unknown, { file, sql }: { readonly file: string; readonly sql: string }): unknown => {
  if (!(error instanceof Failure)) return error;
  const details = (error.body.details ?? {}) as ScriptDetails;
  if (details.statement === undefined) return error;
  const place = sqlPlace(sql, details.position ?? null);
  const where = `${shownPath(run, file)}${place === null ? '' : `:${place.line}`}`;
  const lines = [
    `${where}: statement ${details.statement}: ${clean(error.message)}`,
    ...(place === null ? [] : [place.text]),
    'Nothing of it was kept.',
  ];
  return new Failure(error.exit, error.body.code, lines.join('\n'), { ...error.body });
};

/** Runs the file in one transaction. It is run each time: whether it may be is for its author to say. */
export const seed = async (run: Run): Promise<void> => {
  const { out, cwd } = run.cli;
  const [given] = run.args;
  if (given !== undefined && given.trim() === '') throw usage('The file must not be empty.');
  const project = await inProject(run);
  const file = given === undefined ? inFolder(run, 'seed.sql') : path.resolve(cwd, given);
  const sql = await readText(file);
  if (Buffer.byteLength(sql) > maxBytes) throw usage(`${shownPath(run, file)} is larger than 50 MB.`);
  if (sql.trim() === '') throw usage(`${shownPath(run, file)} is empty.`);
  const request = { method: 'POST', body: { sql, dry_run: isOn(run, 'dryRun') }, timeoutMs };
  const { statements } = await call<{ statements: Statement[] }>(project, `${project.path}/db/script`, request).catch(
    (error: unknown) => {
      throw located(run, error, { file, sql });
    },
  );
  const rows = statements.map(({ command, row_count: count }, index) => ({
    statement: index + 1,
    command,
    rows: count,
  }));
  out.table(rows, { statements, dry_run: isOn(run, 'dryRun') }, 'There was no statement.');
  out.say(isOn(run, 'dryRun') ? 'Nothing was kept.' : 'Done.');
};
