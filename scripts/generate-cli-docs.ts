import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { cliPage } from './cli-page.ts';

await writeFile(path.join(import.meta.dirname, '../docs/cli.md'), await cliPage());
