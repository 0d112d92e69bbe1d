import path from 'node:path';
import type { Command } from 'commander';
import { accessToken, readStored } from './credentials.ts';
import { failed, notFound, usage } from './errors.ts';
import { type Request, type Target, jsonOf, send } from './http.ts';
import { isLoopback, linkedRoot, readLink, readUrl } from './link.ts';
import type { Output } from './output.ts';
import { type Terminal, confirm } from './prompts.ts';
import { cleanLine, didYouMean } from './text.ts';
import type { Schemas } from './types.ts';

/** The surroundings of a command. */
export interface Cli {
  readonly out: Output;
  readonly terminal: Terminal;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Aborted on Ctrl-C. */
  readonly signal: AbortSignal;
  readonly version: string;
}

/** The options that every command takes. */
interface GlobalOptions {
  readonly json?: boolean;
  readonly yes?: boolean;
  readonly url?: string;
  readonly project?: string;
}

/** A command's options, those that every command takes among them. */
export type Options = GlobalOptions & Readonly<Record<string, string | boolean | readonly string[] | undefined>>;

export interface Run {
  readonly cli: Cli;
  readonly options: Options;
  readonly args: readonly string[];
}

/** How a command line is carried out. */
export type Act = (work: (run: Run) => Promise<void>) => (...given: unknown[]) => Promise<void>;

/** Adds a group of commands. */
export type Register = (program: Command, act: Act) => void;

export const textOption = ({ options }: Run, name: string): string | undefined => {
  const value = options[name];
  return typeof value === 'string' ? value : undefined;
};

export const isOn = ({ options }: Run, name: string): boolean => options[name] === true;

/** @throws {Failure} `usage` */
export const numberOption = (run: Run, name: string, fallback: number): number => {
  const value = textOption(run, name);
  if (value === undefined) return fallback;
  if (!/^\d{1,9}$/.test(value)) throw usage(`--${name} must be a whole number.`);
  return Number(value);
};

const localUrl = 'http://localhost:3000';

/** The platform that is meant: as named, else that of the folder's project, else the one signed in to last. */
export const urlOf = async ({ cli, options }: Run): Promise<string> => {
  const named = options.url ?? (cli.env['PLINTH_URL'] || undefined);
  if (named !== undefined) return readUrl(named);
  const link = await readLink(cli.cwd);
  if (link !== undefined && link.url !== '') return readUrl(link.url);
  // Without a home folder there is no sign-in, and it was no use to look for one.
  const stored = cli.env['PLINTH_ACCESS_TOKEN'] ? undefined : await readStored(cli.env);
  return readUrl(stored?.current ?? localUrl);
};

export const targetOf = (cli: Cli, url: string): Target => ({
  url,
  userAgent: `plinth-cli/${cli.version} node/${process.versions.node} ${process.platform}`,
  signal: cli.signal,
});

/** A file that somebody else wrote must not choose where a token from the environment goes. */
const requireNamedUrl = (run: Run, url: string): void => {
  if (run.options.url !== undefined || run.cli.env['PLINTH_URL'] || isLoopback(url)) return;
  throw usage(`PLINTH_ACCESS_TOKEN is not sent to ${url}, which plinth/config.json names.`, `Set PLINTH_URL=${url}.`);
};

/**
 * The way to the platform as the signed-in user.
 * @throws {Failure} `signed_out`
 */
export const signedInTarget = async (run: Run): Promise<Target> => {
  const url = await urlOf(run);
  const target = targetOf(run.cli, url);
  const given = run.cli.env['PLINTH_ACCESS_TOKEN'];
  if (given) {
    requireNamedUrl(run, url);
    return { ...target, token: given };
  }
  return { ...target, token: await accessToken(run.cli.env, target) };
};

export const call = async <T>(target: Target, where: string, request?: Request): Promise<T> =>
  jsonOf<T>(target, await send(target, where, request));

/** A project as the API answers it. */
export type Project = Schemas['Project'];

const pageSize = 200;

/** All of a list, page by page. */
export const listAll = async <T>(target: Target, where: string, name: string): Promise<T[]> => {
  const found: T[] = [];
  for (;;) {
    const page = `${where}${where.includes('?') ? '&' : '?'}limit=${pageSize}&offset=${found.length}`;
    const answer = await call<Record<string, unknown> | null>(target, page);
    const part = answer?.[name];
    if (!Array.isArray(part)) throw failed('no_platform', `${target.url} answered a list without ${name}.`);
    found.push(...(part as T[]));
    if (part.length === 0 || found.length >= Number(answer?.['total'])) return found;
  }
};

/**
 * The project of an id, a ref or a slug.
 * @throws {Failure} `not_found`; `usage` when several have the slug
 */
export const findProject = async (target: Target, wanted: string): Promise<Project> => {
  if (wanted.trim() === '') throw usage('The project must not be empty.');
  const projects = await listAll<Project>(target, '/projects', 'projects');
  const exact = projects.find(({ id, ref }) => id === wanted.toLowerCase() || ref === wanted);
  if (exact) return exact;
  const found = projects.filter(({ slug, name }) => slug === wanted || name === wanted);
  const [first] = found;
  if (first === undefined) {
    const names = projects.flatMap(({ slug, ref }) => [slug, ref]);
    throw notFound(
      `There is no project ${cleanLine(wanted)}.${didYouMean(wanted, names)}`,
      'List them with `plinth projects`.',
    );
  }
  if (found.length > 1) {
    throw usage(`Several projects are called ${cleanLine(wanted)}: ${found.map(({ ref }) => ref).join(', ')}.`);
  }
  return first;
};

/** The linked project and the way to it. */
export interface InProject extends Target {
  /** `/projects/<id>` */
  readonly path: string;
  readonly id: string;
}

const uuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

/**
 * The project that is meant: as named, else the folder's. Not being signed in comes first.
 * @throws {Failure} `signed_out`, `usage`
 */
export const inProject = async (run: Run): Promise<InProject> => {
  const target = await signedInTarget(run);
  const named = run.options.project ?? (run.cli.env['PLINTH_PROJECT'] || undefined);
  const link = named === undefined ? await readLink(run.cli.cwd) : undefined;
  const wanted = named ?? link?.project_id;
  if (wanted === undefined) {
    throw usage(
      'This folder is not linked to a project.',
      'Link it with `plinth link`, or name the project with --project.',
    );
  }
  const id = uuid.test(wanted) ? wanted.toLowerCase() : (await findProject(target, wanted)).id;
  return { ...target, id, path: `/projects/${id}` };
};

/** A path below the `plinth` folder of the project: of the linked folder, else of this one. */
export const inFolder = ({ cli }: Run, ...parts: readonly string[]): string =>
  path.join(linkedRoot(cli.cwd) ?? cli.cwd, 'plinth', ...parts);

/** A path as a person reads it: from the folder in which the command was called. */
export const shownPath = ({ cli }: Run, file: string): string => cleanLine(path.relative(cli.cwd, file) || file);

export const confirmFirst = ({ cli, options }: Run, what: string): Promise<void> =>
  confirm(cli.terminal, options.yes === true, what);

/** @throws {Failure} `usage` */
export const requireArgument = ({ args }: Run, index: number, name: string): string => {
  const value = args[index];
  if (value === undefined || value.trim() === '') throw usage(`${name} must not be empty.`);
  return value;
};
