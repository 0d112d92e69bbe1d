import test from 'ava';
import { modelsStruckShortly } from '#faults/scenarios/models.ts';
import { onStage, play } from '#faults/stage.ts';
import type { Verdict } from '#faults/verdict.ts';
import { faultTestMs } from '#test/support/time-outs.ts';

/** `npm run faults -- --only models` does so for longer. */
test('each answered call of a model has one row, whoever is killed: clients, the API, Postgres', async (t) => {
  t.timeout(faultTestMs);
  const verdicts: Verdict[] = [];
  await onStage(async (stage) => {
    verdicts.push(await play(stage, modelsStruckShortly));
    return 0;
  });
  t.deepEqual(verdicts[0]?.problems, []);
});
