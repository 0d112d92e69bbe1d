import { createInterface } from 'node:readline';
import type { ReadStream } from 'node:tty';
import { interrupted, usage } from './errors.ts';

/** Questions go to standard error, so that standard output is data alone. */
export interface Terminal {
  readonly input: NodeJS.ReadableStream & Partial<ReadStream>;
  readonly output: NodeJS.WritableStream;
}

export const isInteractive = ({ input }: Terminal): boolean => input.isTTY === true;

/** @throws {Failure} when the input ends first, or on Ctrl-C */
export const ask = ({ input, output }: Terminal, question: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const lines = createInterface({ input, output, terminal: input.isTTY === true });
    let answered = false;
    lines.question(question, (answer) => {
      answered = true;
      lines.close();
      resolve(answer.trim());
    });
    lines.on('SIGINT', () => lines.close());
    lines.on('close', () => {
      if (!answered) reject(interrupted());
    });
  });

const enter = new Set(['\r', '\n', '\u0004']);
const erase = new Set(['\u007F', '\b']);

/** Reads a line that is not shown, and neither is its length. */
const askHidden = ({ input, output }: Terminal, question: string): Promise<string> =>
  new Promise((resolve, reject) => {
    output.write(question);
    input.setRawMode?.(true);
    input.setEncoding('utf8');
    input.resume();
    let typed = '';
    const end = (finish: () => void): void => {
      input.setRawMode?.(false);
      input.off('data', read);
      input.pause();
      output.write('\n');
      finish();
    };
    const read = (chunk: string | Buffer): void => {
      for (const character of String(chunk)) {
        if (character === '\u0003') return end(() => reject(interrupted()));
        if (enter.has(character)) return end(() => resolve(typed));
        if (erase.has(character)) typed = Array.from(typed).slice(0, -1).join('');
        else if (character >= ' ') typed += character;
      }
    };
    input.on('data', read);
  });

const maxPiped = 100_000;

/** The first line of what another program sends. */
const readLine = async ({ input }: Terminal): Promise<string> => {
  let text = '';
  for await (const chunk of input) {
    text += String(chunk);
    if (text.includes('\n') || text.length > maxPiped) break;
  }
  return (text.split('\n', 1)[0] ?? '').replace(/\r$/, '');
};

/** From a person, who sees nothing of it, or from the program before the pipe. */
export const askPassword = (terminal: Terminal, question: string): Promise<string> =>
  isInteractive(terminal) ? askHidden(terminal, question) : readLine(terminal);

/**
 * Asks before something is lost.
 * @param what names what will be lost
 * @throws {Failure} `usage` when nobody can be asked and `--yes` was not given; `interrupted` when the answer is no
 */
export const confirm = async (terminal: Terminal, isYes: boolean, what: string): Promise<void> => {
  if (isYes) return;
  if (!isInteractive(terminal)) throw usage(`${what} needs --yes where nobody can be asked.`);
  const answer = await ask(terminal, `${what} Go on? [y/N] `);
  if (!/^y(es)?$/i.test(answer)) throw usage('Nothing was changed.');
};
