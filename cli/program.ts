import { Command } from 'commander';
import type { Act, Register } from './cli.ts';

/** Commands that are loaded together, and only when one of them is called: a start costs the processor half as much. */
interface Group {
  readonly names: readonly string[];
  readonly load: () => Promise<Register>;
}

/** In the order of the help. */
export const groups: readonly Group[] = [
  {
    names: ['login', 'logout', 'whoami', 'tokens'],
    load: async () => (await import('./commands/account.ts')).registerAccount,
  },
  { names: ['init'], load: async () => (await import('./commands/init.ts')).registerInit },
  {
    names: ['link', 'status', 'projects', 'open'],
    load: async () => (await import('./commands/projects.ts')).registerProjects,
  },
  { names: ['db'], load: async () => (await import('./commands/database.ts')).registerDatabase },
  { names: ['functions'], load: async () => (await import('./commands/functions.ts')).registerFunctions },
  { names: ['logs'], load: async () => (await import('./commands/logs.ts')).registerLogs },
  { names: ['listen'], load: async () => (await import('./commands/listen.ts')).registerListen },
  { names: ['env'], load: async () => (await import('./commands/env.ts')).registerEnv },
  { names: ['storage'], load: async () => (await import('./commands/storage.ts')).registerStorage },
  { names: ['jobs'], load: async () => (await import('./commands/jobs.ts')).registerJobs },
  { names: ['mail'], load: async () => (await import('./commands/mail.ts')).registerMail },
  { names: ['cron'], load: async () => (await import('./commands/cron.ts')).registerCron },
  { names: ['flags'], load: async () => (await import('./commands/flags.ts')).registerFlags },
  { names: ['users'], load: async () => (await import('./commands/users.ts')).registerUsers },
  { names: ['doctor'], load: async () => (await import('./commands/doctor.ts')).registerDoctor },
  { names: ['completion'], load: async () => (await import('./commands/completion.ts')).registerCompletion },
];

const takingValue = new Set(['--url', '--project']);
const alone = new Set(['--json', '-y', '--yes']);

/** The command of a command line when it is surely one; undefined: all of them must be there to say. */
export const commandOf = (argv: readonly string[]): string | undefined => {
  for (let at = 0; at < argv.length; at += 1) {
    const word = argv[at] ?? '';
    if (takingValue.has(word)) at += 1;
    else if (!alone.has(word)) return word.startsWith('-') ? undefined : word;
  }
  return undefined;
};

/**
 * The program; `act` carries out its commands.
 * @param called the command that is called: no other is loaded. Left out, or unknown: all are.
 */
export const createProgram = async (version: string, act: Act, called?: string): Promise<Command> => {
  const wanted = groups.filter(({ names }) => called !== undefined && names.includes(called));
  const registers = await Promise.all((wanted.length > 0 ? wanted : groups).map(({ load }) => load()));
  const program = new Command('plinth')
    .description('The command line of plinth: databases, functions and files of your projects.')
    .version(version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print help')
    .helpCommand('help [command]', 'print help about a command')
    .option('--json', 'print data alone, as JSON; errors too')
    .option('-y, --yes', 'ask nothing: go on')
    .option('--url <url>', 'address of the platform (PLINTH_URL)')
    .option('--project <project>', 'id, ref or slug of the project (PLINTH_PROJECT)')
    .exitOverride()
    .showSuggestionAfterError();
  for (const register of registers) register(program, act);
  return program;
};
