import test from 'ava';
import { type SourceFile, filesOf, productFolders } from './source.ts';

/**
 * Words that this code once used for concepts that have a usual name. They may stand in no identifier, file name or
 * comment: docs/glossary.md has the words in their place.
 */
const retired: Readonly<Record<string, string>> = {
  lane: 'queue shard, webhook throttle',
  lanes: 'queue shards, webhook throttles',
  keeper: 'shard leader, call heartbeat',
  keepers: 'shard leaders, call heartbeats',
  ear: 'subscriber',
  ears: 'subscribers',
  deaf: 'unsubscribed',
  wish: 'request, options',
  wishes: 'requests, options',
  insist: 'retry until done',
  crowd: 'slow scope, or a number',
  unending: 'uncancellable',
};

/** Names in which these words stand are retired, too; in a sentence they have their usual meaning. */
const retiredInNames: Readonly<Record<string, string>> = {
  ...retired,
  asked: 'request, requested',
  asker: 'caller',
  begun: 'started',
  halt: 'abort, stop',
  hears: 'is subscribed',
  look: 'poll, check',
  spoken: 'supported',
  tell: 'notify, emit',
  told: 'notified, emitted, reported',
};

/** Bounds are `max…` and `min…`: no name begins with these. */
const retiredBounds = /^(?:most|longest|largest)[A-Z]/;

/** A comment is a sentence; one that begins so is a riddle until its end. */
const riddle = /^(?:What|Who|Whose|Whom|Of|Those|Nor)\b/;

/** Comments (lines that follow each other are one), literals and names; everything else is of no interest. */
const token =
  /(?<comment>\/\*[\s\S]*?\*\/|\/\/[^\n]*(?:\n[ \t]*\/\/[^\n]*)*)|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|\/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/[dgimsuvy]*|(?<name>[A-Za-z_$][\w$]*)/g;

const wordsOf = (name: string): string[] =>
  name
    .replaceAll(/([a-z\d])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z]+/);

const problemsOfName = (name: string): string[] => {
  const words = wordsOf(name).filter((word) => Object.hasOwn(retiredInNames, word));
  if (retiredBounds.test(name)) return [`${name}: say max`];
  return words.map((word) => `${name}: say ${retiredInNames[word]}`);
};

const textOf = (comment: string): string => comment.replaceAll(/^\/\*+|\*+\/$|^\s*\*|^\s*\/\//gm, '').trim();

const problemsOfComment = (comment: string): string[] => {
  const text = textOf(comment);
  const words = wordsOf(text).filter((word) => Object.hasOwn(retired, word));
  const found = words.map((word) => `"${word}" in a comment: say ${retired[word]}`);
  return riddle.test(text) ? [...found, `a comment begins with a riddle: ${text.slice(0, 60)}`] : found;
};

const problemsOf = ({ name: file, text }: SourceFile): string[] => {
  const found = [...text.matchAll(token)].flatMap(({ 0: whole, groups }) => {
    // The text between the tags of a page looks like names.
    if (groups?.['name'] !== undefined) return file.endsWith('.tsx') ? [] : problemsOfName(whole);
    return groups?.['comment'] === undefined ? [] : problemsOfComment(whole);
  });
  return [...new Set([...problemsOfName(file), ...found])];
};

/** Migrations of the past stay as they are. */
const exempt = /^migrations\/|\/retired-words\./;

test('names and comments use the words of docs/glossary.md', (t) => {
  const files = filesOf([...productFolders, 'test', 'web']).filter(({ name }) => !exempt.test(name));
  t.deepEqual(
    files.flatMap((file) => problemsOf(file).map((problem) => `${file.name}: ${problem}`)),
    [],
  );
});

const countOf = (text: string, name = 'domain/jobs/a.ts'): number => problemsOf({ name, text }).length;

test('a retired word in a name, a file name or a comment is found', (t) => {
  t.is(countOf('const laneOf = 1;'), 1);
  t.is(countOf('const mostRows = 1;'), 1);
  t.is(countOf('// A lane of jobs.'), 1);
  t.is(countOf('/** What a job is. */'), 1);
  t.is(countOf('', 'workers/keeper/a.ts'), 1);
  t.is(countOf(`const text = 'a lane'; // Jobs are asked for.`), 0);
});
