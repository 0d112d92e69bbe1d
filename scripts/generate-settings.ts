import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { settingsExample } from '#lib/settings-example.ts';
import { allSettings } from '#queues/settings.ts';

await writeFile(path.join(import.meta.dirname, '../plinth.env.example'), settingsExample(allSettings));
