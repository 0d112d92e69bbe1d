import test from 'ava';
import { pythonTest } from '#test/runtimes/python-harness.ts';
import { endless, greedy } from './hostile-python-cases.ts';
import { nosy, odd } from './hostile-python-escapes.ts';
import { useHostileScene } from './hostile-scene.ts';

const { suffer, calm } = useHostileScene(test);

for (const { name, code, statuses, fields = {}, result } of [...endless, ...greedy, ...odd, ...nosy]) {
  pythonTest(name, async (t) => {
    const { body } = await suffer(t, [code, ...statuses], { language: 'python', ...fields });
    if (result !== undefined) t.deepEqual(body.result, result);
  });
}

pythonTest('no process and no memory of theirs stays behind', async (t) => {
  await calm();
  t.pass();
});
