import { CommanderError } from 'commander';
import type { Act, Cli, Options } from './cli.ts';
import { type ErrorBody, type Exit, Failure, exits, interrupted, systemCode } from './errors.ts';
import { type Output, createOutput } from './output.ts';
import { commandOf, createProgram } from './program.ts';

/** Set when the bundle is made. */
declare const CLI_VERSION: string;

const beforeDashes = (argv: readonly string[]): readonly string[] => {
  const at = argv.indexOf('--');
  return at === -1 ? argv : argv.slice(0, at);
};

const outputFor = (argv: readonly string[]): Output =>
  createOutput({
    stdout: process.stdout,
    stderr: process.stderr,
    isJson: beforeDashes(argv).includes('--json'),
    isColored: process.stderr.isTTY && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb',
  });

/** Ctrl-C ends what is under way; a second one ends the program at once. */
const abortOnInterrupt = (): AbortSignal => {
  const aborter = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => aborter.abort());
  return aborter.signal;
};

const bodyOfUsage = ({ message, code }: CommanderError): ErrorBody => ({
  code: code === 'commander.unknownCommand' ? 'unknown_command' : 'usage',
  message: message.replace(/^error: /, '').replace(/\n\((Did you mean [^)]*)\)/, ' $1'),
  hint: 'Help: `plinth help`.',
});

/** A fault of the program: the person needs a sentence, and whoever mends it the stack. */
const fault = (out: Output, error: unknown): void => {
  out.error({ code: 'internal', message: `This is a fault of the command line: ${String(error)}` });
  if (process.env['PLINTH_DEBUG'] && error instanceof Error) process.stderr.write(`${error.stack}\n`);
  else out.say('  With PLINTH_DEBUG=1 it says where.');
};

/** Writes the failure. @returns the exit code */
const report = (out: Output, error: unknown, signal: AbortSignal): Exit => {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return exits.ok;
    // Help that nobody asked for was written already.
    if (error.code !== 'commander.help') out.error(bodyOfUsage(error));
    return exits.usage;
  }
  if (signal.aborted) {
    out.error(interrupted().body);
    return exits.interrupted;
  }
  if (error instanceof Failure) {
    out.error(error.body);
    return error.exit;
  }
  fault(out, error);
  return exits.failed;
};

const run = async (argv: readonly string[]): Promise<void> => {
  const out = outputFor(argv);
  const cli: Cli = {
    out,
    terminal: { input: process.stdin, output: process.stderr },
    env: process.env,
    cwd: process.cwd(),
    signal: abortOnInterrupt(),
    version: CLI_VERSION,
  };
  const act: Act =
    (work) =>
    async (...given) => {
      const command = given.at(-1) as { readonly args: string[]; readonly optsWithGlobals: () => Options };
      await work({ cli, options: command.optsWithGlobals(), args: command.args });
    };
  const program = await createProgram(cli.version, act, commandOf(beforeDashes(argv)));
  for (const one of [program, ...program.commands, ...program.commands.flatMap(({ commands }) => commands)]) {
    one.configureOutput({ outputError: () => undefined });
  }
  try {
    await program.parseAsync([...argv], { from: 'user' });
    if (cli.signal.aborted) process.exitCode = exits.interrupted;
  } catch (error) {
    process.exitCode = report(out, error, cli.signal);
  }
};

// The reader of a pipe, such as `head`, may have seen enough.
process.stdout.on('error', (error: Error) => {
  if (systemCode(error) !== 'EPIPE') throw error;
  process.exit(exits.ok);
});

await run(process.argv.slice(2));
