import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Command, Option } from 'commander';
import { exits } from '#cli/errors.ts';
import { createProgram } from '#cli/program.ts';

/** The exit codes in words. */
const meanings: Readonly<Record<keyof typeof exits, string>> = {
  ok: 'done',
  failed: 'it failed: the reason is on standard error',
  usage: 'the command line or a file of the project is not right, or nobody could be asked',
  signedOut: 'not signed in, or not any more',
  notFound: 'what was named does not exist, or is not yours',
  conflict: 'it is in conflict with what is there: a changed migration, a file that differs, a name that is taken',
  interrupted: 'ended by Ctrl-C',
};

const cell = (text: string): string => text.replaceAll('|', String.raw`\|`);

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows].map((row) => `| ${row.map(cell).join(' | ')} |`).join('\n');

const isShown = (command: Command): boolean => !command.name().startsWith('__');

const usageOf = (command: Command, parents: readonly string[]): string => {
  const given = command.registeredArguments.map((argument) => {
    const name = argument.name() + (argument.variadic ? '...' : '');
    return argument.required ? `<${name}>` : `[${name}]`;
  });
  const options = command.options.length > 0 ? ['[options]'] : [];
  return [...parents, command.name(), ...options, ...given].join(' ');
};

const optionsOf = (options: readonly Option[]): string =>
  table(
    ['option', 'meaning'],
    options.map(({ flags, description, defaultValue }) => [
      `\`${flags}\``,
      defaultValue === undefined ? description : `${description} (default: ${String(defaultValue)})`,
    ]),
  );

/** A command and those below it. */
const sectionsOf = (command: Command, parents: readonly string[], depth: number): string[] => {
  const children = command.commands.filter(isShown);
  const names = [...parents, command.name()];
  const aliases = command.aliases().length > 0 ? [`Also: \`${[...parents, command.aliases()[0]].join(' ')}\``] : [];
  const own = [
    `${'#'.repeat(depth)} ${names.join(' ')}`,
    `${command.description().charAt(0).toUpperCase()}${command.description().slice(1)}.`,
    ...(children.length > 0 ? [] : [`\`\`\`text\n${usageOf(command, parents)}\n\`\`\``]),
    ...aliases,
    ...(command.options.length > 0 ? [optionsOf(command.options)] : []),
  ];
  return [...own, ...children.flatMap((child) => sectionsOf(child, names, depth + 1))];
};

const exitTable = (): string =>
  table(
    ['code', 'meaning'],
    (Object.keys(exits) as (keyof typeof exits)[]).map((name) => [String(exits[name]), meanings[name]]),
  );

const introduction = path.join(import.meta.dirname, 'cli-introduction.md');

/** The text of docs/cli.md: what people wrote, and a reference that is read from the commands themselves. */
export const cliPage = async (): Promise<string> => {
  const program = await createProgram('', () => () => Promise.resolve());
  const parts = [
    (await readFile(introduction, 'utf8')).trim(),
    '## Exit codes',
    exitTable(),
    '## Options of every command',
    optionsOf(program.options),
    '## Commands',
    ...program.commands.filter(isShown).flatMap((command) => sectionsOf(command, [program.name()], 3)),
  ];
  return `${parts.join('\n\n')}\n`;
};
