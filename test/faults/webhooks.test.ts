import test from 'ava';
import { struckShortly } from '#faults/scenarios/table-events.ts';
import type { Verdict } from '#faults/verdict.ts';
import { onStage, play } from '#faults/stage.ts';
import { faultTestMs } from '#test/support/time-outs.ts';

/** `npm run faults -- --only webhooks` does so for longer, and at random. */
test('each committed write to a table is heard of, whatever is killed: relay, worker, Redis, Postgres', async (t) => {
  t.timeout(faultTestMs);
  const verdicts: Verdict[] = [];
  await onStage(async (stage) => {
    verdicts.push(await play(stage, struckShortly));
    return 0;
  });
  const [verdict] = verdicts;
  t.deepEqual(verdict?.problems, []);
  t.true((verdict?.accepted ?? 0) > 0);
});
