import type { Command } from 'commander';
import type { Register, Run } from '../cli.ts';
import { usage } from '../errors.ts';

/** Scripts that ask the program itself: the commands are written down once. */
const scripts: Readonly<Record<string, string>> = {
  bash: `_plinth() {
  local IFS=$'\\n'
  COMPREPLY=($(plinth __complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _plinth plinth
`,
  zsh: `#compdef plinth
_plinth() {
  local -a found
  found=("\${(@f)$(plinth __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  [[ -n "\${found[1]}" ]] && compadd -- "\${found[@]}" || _files
}
compdef _plinth plinth
`,
  fish: `complete -c plinth -f -a '(plinth __complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
`,
};

const visible = ({ commands }: Command): Command[] => commands.filter((one) => !one.name().startsWith('__'));

const optionNames = (command: Command): string[] =>
  command.options.flatMap(({ long, short }) => [long, short].filter((name) => name !== undefined && name !== null));

/** The words that may stand where the last one is being typed. */
export const complete = (program: Command, words: readonly string[]): string[] => {
  const typed = words.at(-1) ?? '';
  let command = program;
  const chain = [program];
  for (const word of words.slice(0, -1)) {
    const next = visible(command).find((one) => one.name() === word || one.aliases().includes(word));
    if (next === undefined) continue;
    command = next;
    chain.push(next);
  }
  const names = typed.startsWith('-')
    ? [...chain.flatMap(optionNames), '--help']
    : visible(command).map((one) => one.name());
  return [...new Set(names)].filter((name) => name.startsWith(typed)).toSorted();
};

const completion = (run: Run): Promise<void> => {
  const shell = run.args[0] ?? '';
  const script = Object.hasOwn(scripts, shell) ? scripts[shell] : undefined;
  if (script === undefined) throw usage(`The shell must be one of ${Object.keys(scripts).join(', ')}.`);
  run.cli.out.data({ shell, script }, script);
  return Promise.resolve();
};

export const registerCompletion: Register = (program, act) => {
  program
    .command('completion <shell>')
    .description('print a script for the completion of commands: bash, zsh or fish')
    .action(act(completion));
  program
    .command('__complete [words...]', { hidden: true })
    .allowUnknownOption()
    .helpOption(false)
    .action(
      act((run) => {
        const found = complete(program, run.args);
        run.cli.out.data(found, found.join('\n'));
        return Promise.resolve();
      }),
    );
};
