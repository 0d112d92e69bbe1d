import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { jobs } from '#queues/registry.ts';
import { processorTable } from './processor-table.ts';

await writeFile(path.join(import.meta.dirname, '../workers/processors/registry.ts'), processorTable(jobs));
