import { createInterface } from 'node:readline';
import path from 'node:path';
import { type InProject, type Run, findProject, inProject, textOption } from '../../cli.ts';
import { Failure, usage } from '../../errors.ts';
import { readText } from '../../files.ts';
import { jsonText } from '../../text.ts';
import { isInteractive } from '../../prompts.ts';
import { statementsOf } from './diff/sql.ts';
import { type QueryAnswer, query, tablesOf } from './exact.ts';
import { sqlPlace } from './place.ts';

/** A failure with a caret below the place in the statement. */
const located = (error: unknown, sql: string): unknown => {
  if (!(error instanceof Failure)) return error;
  const details = (error.body.details ?? {}) as { readonly position?: number | string | null };
  const place = sqlPlace(
    sql,
    details.position === undefined || details.position === null ? null : Number(details.position),
  );
  if (place === null) return error;
  return new Failure(error.exit, error.body.code, `line ${place.line}: ${error.message}\n${place.text}`, {
    ...error.body,
  });
};

const cellOf = (value: unknown): string | null => {
  if (value === null || typeof value === 'string') return value;
  return JSON.stringify(value);
};

const rowsText = (count: number): string => (count === 1 ? '1 row' : `${count} rows`);

const show = ({ cli: { out } }: Run, answer: QueryAnswer): void => {
  const rows = answer.rows.map((row) =>
    Object.fromEntries(Object.entries(row).map(([name, value]) => [name, cellOf(value)])),
  );
  if (answer.columns.length > 0 || out.isJson) out.table(rows, answer, 'No rows.');
  const more = answer.truncated === true ? ', and there were more' : '';
  out.say(
    answer.columns.length > 0
      ? `(${rowsText(answer.row_count)}${more})`
      : `${answer.command ?? 'done'} ${answer.row_count}`,
  );
};

const runStatement = async (run: Run, project: InProject, sql: string): Promise<void> => {
  const answer = await query(project, sql).catch((error: unknown) => {
    throw located(error, sql);
  });
  show(run, answer);
};

const help =
  'End a statement with ; and Enter. \\d lists the tables, \\q or Ctrl-D leaves, Ctrl-C ends what runs. Each statement is a session of its own.';

const listTables = async (run: Run, project: InProject): Promise<void> => {
  const rows = (await tablesOf(project)).map(({ schema, name, kind, columns }) => ({
    schema,
    name,
    kind,
    columns: columns.length,
  }));
  run.cli.out.table(rows, rows, 'There are no tables.');
};

/** A line that begins with a backslash. @returns whether to go on */
const obey = async (run: Run, project: InProject, command: string): Promise<boolean> => {
  if (command === '\\q') return false;
  if (command === '\\d' || command === '\\dt') await listTables(run, project);
  else run.cli.out.say(help);
  return true;
};

const isWhole = (text: string): boolean => /;\s*$/.test(text) && statementsOf(text).length > 0;

/** Reports a failure and goes on: a wrong word must not end the session. */
const tolerant = async (run: Run, work: () => Promise<void>): Promise<void> => {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof Failure) || run.cli.signal.aborted) throw error;
    run.cli.out.error(error.body);
  }
};

const prompts = (name: string) => ({ first: `${name}=> `, next: `${name}-> ` });

/** Runs statements one after the other, until one fails or `stop` is aborted. */
const runAll = (run: Run, project: InProject, statements: readonly string[], stop: AbortSignal): Promise<void> =>
  tolerant(run, async () => {
    const stoppable = { ...project, signal: AbortSignal.any([project.signal, stop]) };
    for (const sql of statements) await runStatement(run, stoppable, sql);
  });

const interact = async (run: Run, project: InProject): Promise<void> => {
  const { terminal, out, signal } = run.cli;
  const { first, next } = prompts((await findProject(project, project.id)).slug);
  out.say(help);
  const reader = createInterface({ input: terminal.input, output: process.stderr, terminal: true, prompt: first });
  signal.addEventListener('abort', () => reader.close(), { once: true });
  let text = '';
  let running: AbortController | undefined;
  const prompt = (): void => {
    reader.setPrompt(text === '' ? first : next);
    reader.prompt();
  };
  // As psql: it ends the statement that runs, or discards the one that is typed.
  reader.on('SIGINT', () => {
    if (running === undefined) {
      text = '';
      for (const name of ['e', 'u']) reader.write(null, { ctrl: true, name });
      terminal.output.write('^C\n');
      prompt();
    } else running.abort();
  });
  prompt();
  for await (const line of reader) {
    if (text === '' && line.trim().startsWith('\\')) {
      if (!(await obey(run, project, line.trim()))) break;
    } else {
      text += `${line}\n`;
      if (isWhole(text)) {
        const statements = statementsOf(text);
        text = '';
        running = new AbortController();
        await runAll(run, project, statements, running.signal);
        running = undefined;
      } else if (text.trim() === '') text = '';
    }
    prompt();
  }
  reader.close();
};

const readAll = async (input: AsyncIterable<unknown>): Promise<string> => {
  let text = '';
  for await (const chunk of input) text += String(chunk);
  return text;
};

const givenSql = async (run: Run): Promise<string | undefined> => {
  const [command, file] = [textOption(run, 'command'), textOption(run, 'file')];
  if (command !== undefined && file !== undefined) throw usage('Give either --command or --file.');
  if (command !== undefined) return command;
  if (file !== undefined) return readText(path.resolve(run.cli.cwd, file));
  return isInteractive(run.cli.terminal) ? undefined : readAll(run.cli.terminal.input);
};

/** SQL at a prompt, from an option, a file or standard input; each statement in a session of its own. */
export const psql = async (run: Run): Promise<void> => {
  const sql = await givenSql(run);
  const project = await inProject(run);
  if (sql === undefined) return interact(run, project);
  const statements = statementsOf(sql);
  if (statements.length === 0) throw usage('There is no statement.');
  if (run.cli.out.isJson && statements.length > 1) {
    const answers: QueryAnswer[] = [];
    for (const statement of statements) answers.push(await query(project, statement));
    return run.cli.out.data(answers, jsonText(answers));
  }
  for (const statement of statements) await runStatement(run, project, statement);
};
