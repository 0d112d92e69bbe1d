import { type Benchmark, type Row, byTurns, median, range } from '../harness.ts';
import { type Child, withChildren } from '../jobs/child.ts';
import { startAiScene } from './scene.ts';

const rounds = 9;
const seconds = 2;

const measure = async (child: Child, projectId: string): Promise<readonly Row[]> => {
  const cpu = (state: 'on' | 'off') => (): Promise<number> =>
    child.ask('round', { projectId, logging: state, seconds });
  await cpu('on')();
  const pairs = await byTurns(rounds, cpu('on'), cpu('off'));
  const [on, off] = [pairs.map(({ ours }) => ours), pairs.map(({ floor }) => floor)];
  return [
    {
      name: 'AI: CPU of a call within the gateway, recorded',
      ours: { value: median(on), unit: 'µs' },
      floor: { value: median(off), unit: 'µs' },
      ratio: median(pairs.map(({ ours, floor }) => ours / floor)),
      target: { of: 'ratio', atMost: 1.05 },
      notes: [
        `on: ${range(on)}; off: ${range(off)}`,
        'without HTTP, keys and rate limits around it: a whole call costs more',
      ],
    },
  ];
};

/** The cost of recording each call for the process that makes them. */
export const logging: Benchmark = {
  name: 'ai/logging',
  run: async (bench) => {
    const { project, setPace } = await startAiScene(bench);
    await setPace('fast');
    return withChildren(bench, (start) => measure(start('logging-calls'), project.id), 'ai');
  },
};
