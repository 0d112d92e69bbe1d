import type { JobDefinition } from '#queues/define.ts';

/** `webhook.deliver` → `webhook-deliver`: the name of its files in queues/ and workers/processors/. */
const fileOf = (type: string): string => type.replaceAll(/[._]/g, '-');

const exportOf = (type: string): string =>
  `${fileOf(type).replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase())}Processor`;

/**
 * `workers/processors/registry.ts`: the processor of each registered job type. It is written out, so that the compiler
 * finds a processor that is missing or that needs what no worker has.
 */
export const processorTable = (jobs: readonly Pick<JobDefinition, 'type'>[]): string => {
  const types = jobs.map(({ type }) => type).toSorted();
  return [
    '// Made from queues/registry.ts by `npm run processors`.',
    "import type { OpenProcessor } from './deps.ts';",
    ...types.map((type) => `import { ${exportOf(type)} } from './${fileOf(type)}.ts';`),
    '',
    '/** The processor of each job type. */',
    'export const openProcessors: Readonly<Record<string, OpenProcessor>> = {',
    ...types.map((type) => `  '${type}': ${exportOf(type)},`),
    '};',
    '',
  ].join('\n');
};
