import type { Command } from 'commander';
import { type InProject, type Register, type Run, call, inProject, isOn, numberOption, textOption } from '../cli.ts';
import { usage } from '../errors.ts';
import { type ServerEvent, followEvents } from '../events.ts';
import { clean, cleanLine } from '../text.ts';
import { findFunction } from './functions/find.ts';
import type { Schemas } from '../types.ts';

type LogLine = Schemas['LogLine'];

const units: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A time, or how long ago: `15m`. */
export const sinceOf = (given: string, now: number): string => {
  const [, number, unit] = /^(\d{1,6})([smhd])$/.exec(given) ?? [];
  const at = number === undefined ? Date.parse(given) : now - Number(number) * (units[unit ?? ''] ?? 0);
  if (!Number.isNaN(at)) return new Date(at).toISOString();
  throw usage('--since must be a time such as 2026-01-31T12:00:00Z, or a span such as 15m, 2h or 7d.');
};

const levels = ['debug', 'info', 'warn', 'error'] as const;

/** A level and those above it. */
const levelsFrom = (given: string): string => {
  const at = levels.findIndex((level) => level === given);
  if (at === -1) throw usage(`--level must be one of ${levels.join(', ')}.`);
  return levels.slice(at).join(',');
};

const queryOf = (run: Run, functionId: string | undefined): URLSearchParams => {
  const query = new URLSearchParams();
  const [since, level, text] = ['since', 'level', 'search'].map((name) => textOption(run, name));
  if (since !== undefined) query.set('since', sinceOf(since, Date.now()));
  if (level !== undefined) query.set('level', levelsFrom(level));
  if (text !== undefined) query.set('q', text);
  if (functionId !== undefined) query.set('function', functionId);
  const [source, request] = ['source', 'request'].map((name) => textOption(run, name));
  if (source !== undefined) query.set('source', source);
  if (request !== undefined) query.set('request_id', request);
  return query;
};

const print = ({ cli: { out } }: Run, line: LogLine): void => {
  const fields = line.fields === null ? '' : ` ${out.dim(cleanLine(JSON.stringify(line.fields)))}`;
  const from = line.source === 'function' ? '' : `${out.dim(line.source)} `;
  const level = line.level === 'error' ? out.red(line.level.padEnd(5)) : line.level.padEnd(5);
  out.line(line, `${out.dim(cleanLine(line.ts))} ${level} ${from}${clean(line.message)}${fields}`);
};

const search = async (run: Run, project: InProject, query: URLSearchParams): Promise<void> => {
  const wanted = numberOption(run, 'limit', 100);
  if (wanted < 1 || wanted > 1000) throw usage('--limit must be from 1 to 1000.');
  query.set('limit', String(wanted));
  const { logs } = await call<{ logs: LogLine[] }>(project, `${project.path}/logs?${query.toString()}`);
  if (run.cli.out.isJson) return run.cli.out.data(logs, '');
  if (logs.length === 0) run.cli.out.say('There are no such lines.');
  // The API's order is the newest first; people read downwards.
  for (const line of logs.toReversed()) print(run, line);
};

const parsed = ({ event, data }: ServerEvent): LogLine | undefined => {
  if (event !== 'log') return undefined;
  try {
    return JSON.parse(data) as LogLine;
  } catch {
    return undefined;
  }
};

const follow = async (run: Run, project: InProject, query: URLSearchParams): Promise<void> => {
  const { out } = run.cli;
  out.say('Waiting for lines; Ctrl-C ends it.');
  await followEvents({
    target: () => inProject(run),
    path: `${project.path}/logs?${query.toString()}`,
    on: (event) => {
      const line = parsed(event);
      if (line) print(run, line);
      else if (event.event === 'gap') out.say('Some lines are left out: there were too many.');
    },
    onReconnect: () => out.say('The platform does not answer; trying again …'),
  });
};

export const showLogs = async (run: Run, slug: string | undefined): Promise<void> => {
  const project = await inProject(run);
  const id = slug === undefined ? undefined : (await findFunction(project, slug)).id;
  const query = queryOf(run, id);
  await (isOn(run, 'follow') ? follow : search)(run, project, query);
};

export const addLogOptions = (command: Command): Command =>
  command
    .option('-f, --follow', 'print lines as they come, until Ctrl-C')
    .option('--since <time>', 'a time, or a span such as 15m, 2h or 7d')
    .option('--level <level>', 'this level and those above: debug, info, warn, error')
    .option('--search <text>', 'lines with this text')
    .option('--request <id>', 'lines of this request: the id in an error')
    .option('-n, --limit <number>', 'at most so many lines', '100');

export const registerLogs: Register = (program, act) => {
  addLogOptions(
    program
      .command('logs')
      .description('print the logs of all functions of the project, or of other sources')
      .option('--function <name>', 'of this function alone')
      .option('--source <names>', 'job, webhook, or of mail,auth,data,storage,ai,api one or several'),
  ).action(act((run) => showLogs(run, textOption(run, 'function'))));
};
