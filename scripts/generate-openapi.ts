import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { endpoints } from '#api/endpoints.ts';
import { openapiOf } from '#api/docs/openapi.ts';

const file = path.join(import.meta.dirname, '../docs/openapi.json');
const text = `${JSON.stringify(openapiOf(endpoints), null, 2)}\n`;

// `--check` compares and changes nothing.
if (process.argv.includes('--check')) {
  const present = await readFile(file, 'utf8').catch(() => '');
  if (present !== text) throw new Error('docs/openapi.json is not what the code yields: run npm run openapi');
} else {
  await writeFile(file, text);
}
