import { parseArgs } from 'node:util';
import { StartError } from '#scripts/errors.ts';
import { scenarios } from './scenarios/all.ts';
import type { Scenario } from './scenarios/scenario.ts';
import { soak } from './soak.ts';
import { onStage, play } from './stage.ts';
import type { Stage } from './scene.ts';
import { tableOf } from './table.ts';
import type { Verdict } from './verdict.ts';

const playAll = async (stage: Stage, chosen: readonly Scenario[]): Promise<number> => {
  const verdicts: Verdict[] = [];
  for (const scenario of chosen) {
    const missing = await scenario.missing?.(stage);
    stage.print(missing ? `${scenario.name} is left out: ${missing}` : `${scenario.name} …`);
    if (missing) continue;
    const verdict = await play(stage, scenario);
    for (const problem of verdict.problems) stage.print(`  WRONG: ${problem}`);
    verdicts.push(verdict);
  }
  console.log(tableOf(verdicts));
  return verdicts.every(({ problems }) => problems.length === 0) ? 0 : 1;
};

const { values } = parseArgs({ options: { only: { type: 'string', multiple: true }, minutes: { type: 'string' } } });

/** @throws {StartError} when nothing is meant by the arguments */
const chosenBy = ({ only, minutes }: typeof values): readonly Scenario[] => {
  if (minutes !== undefined) {
    if (Number(minutes) > 0) return [soak(Number(minutes))];
    throw new StartError('--minutes takes a number above 0.');
  }
  const chosen = scenarios.filter(({ name }) => only === undefined || only.some((word) => name.includes(word)));
  if (chosen.length > 0) return chosen;
  throw new StartError(`There is no such scenario. There are: ${scenarios.map(({ name }) => name).join(', ')}`);
};

const chosen = chosenBy(values);
process.exitCode = await onStage((stage) => playAll(stage, chosen));
