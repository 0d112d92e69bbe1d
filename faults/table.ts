import type { Verdict } from './verdict.ts';

const heads = [
  'scenario',
  'accepted',
  'finished',
  'cancelled',
  'dead',
  'refused',
  'most running',
  'next start',
  'at rest',
  'holds',
];

const seconds = (ms: number | null): string => (ms === null ? '–' : `${(ms / 1000).toFixed(1)} s`);

const cells = (one: Verdict): string[] => [
  one.name,
  String(one.accepted),
  String(one.finished),
  String(one.cancelled),
  String(one.dead),
  String(one.refused),
  `${one.highest.project}, ${one.highest.all}`,
  seconds(one.recoveredMs),
  seconds(one.restMs),
  one.problems.length === 0 ? 'yes' : 'NO',
];

const line = (texts: readonly string[]): string => `| ${texts.join(' | ')} |`;

/** The table in Markdown; below it what each scenario did and what was wrong. */
export const tableOf = (verdicts: readonly Verdict[]): string => {
  const details = verdicts.map(({ name, did, problems, notes }) =>
    [`${name}: ${did}`, ...problems.map((text) => `  WRONG: ${text}`), ...notes.map((text) => `  ${text}`)].join('\n'),
  );
  return [line(heads), line(heads.map(() => '---')), ...verdicts.map((one) => line(cells(one))), '', ...details].join(
    '\n',
  );
};
