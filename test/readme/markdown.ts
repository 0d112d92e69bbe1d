import { readFileSync } from 'node:fs';
import path from 'node:path';

export const root = path.join(import.meta.dirname, '../..');

/** A fenced block: the language after the fence, and the text without the fence's own indentation. */
export interface Block {
  readonly language: string;
  readonly text: string;
}

export const readDocument = (file: string): string => readFileSync(path.join(root, file), 'utf8');

const fence = /^( *)```(\w*)\n([\s\S]*?)\n\1```$/gm;

const dedent = (text: string, indent: string): string =>
  text
    .split('\n')
    .map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line))
    .join('\n');

export const blocksOf = (document: string): Block[] =>
  [...document.matchAll(fence)].map(([, indent = '', language = '', text = '']) => ({
    language,
    text: dedent(text, indent),
  }));

/** The part under one heading of the second level, up to the next. */
export const sectionOf = (document: string, heading: string): string => {
  const [, section] = document.split(`\n## ${heading}\n`);
  if (section === undefined) throw new Error(`there is no heading "${heading}"`);
  return section.split('\n## ')[0] ?? '';
};

const proseOf = (document: string): string => document.replaceAll(fence, '');

/** The words in backticks in the running text. */
export const codeSpansOf = (document: string): string[] =>
  [...proseOf(document).matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code);

/** Where links lead to, other sites and places in the same page left out. */
export const linksOf = (document: string): string[] =>
  [...proseOf(document).matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target = '']) => target.replace(/#.*$/, ''))
    .filter((target) => target !== '' && !/^[a-z]+:/.test(target));
