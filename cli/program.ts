import { Command } from 'commander';
import type { Act, Register } from './cli.ts';
import { registerAccount } from './commands/account.ts';
import { registerCompletion } from './commands/completion.ts';
import { registerCron } from './commands/cron.ts';
import { registerDatabase } from './commands/database.ts';
import { registerDoctor } from './commands/doctor.ts';
import { registerEnv } from './commands/env.ts';
import { registerFlags } from './commands/flags.ts';
import { registerFunctions } from './commands/functions.ts';
import { registerInit } from './commands/init.ts';
import { registerJobs } from './commands/jobs.ts';
import { registerLogs } from './commands/logs.ts';
import { registerProjects } from './commands/projects.ts';
import { registerStorage } from './commands/storage.ts';
import { registerUsers } from './commands/users.ts';

/** In the order of the help. */
const groups: readonly Register[] = [
  registerAccount,
  registerInit,
  registerProjects,
  registerDatabase,
  registerFunctions,
  registerLogs,
  registerEnv,
  registerStorage,
  registerJobs,
  registerCron,
  registerFlags,
  registerUsers,
  registerDoctor,
  registerCompletion,
];

/** All commands; `act` carries them out. */
export const createProgram = (version: string, act: Act): Command => {
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
  for (const register of groups) register(program, act);
  return program;
};
