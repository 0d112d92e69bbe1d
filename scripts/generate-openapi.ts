import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { endpoints } from '#api/endpoints.ts';
import { openapiOf } from '#api/docs/openapi.ts';
import { type ApiDocument, managed, webRoles, webTypes } from './web-types.ts';

const text = `${JSON.stringify(openapiOf(endpoints), null, 2)}\n`;
const document = JSON.parse(text) as ApiDocument;
const files = {
  'docs/openapi.json': text,
  'web/dashboard/client/types.ts': webTypes(document, { paths: managed, exportsSchemas: false }),
  'web/ops/client/types.ts': webTypes(document, { paths: /^\/ops\//, exportsSchemas: true }),
  'web/dashboard/client/roles.ts': webRoles(document),
  'cli/types.ts': webTypes(document, { paths: managed, exportsSchemas: true }),
};

for (const [name, content] of Object.entries(files)) {
  const file = path.join(import.meta.dirname, '..', name);
  // `--check` compares and changes nothing.
  if (!process.argv.includes('--check')) await writeFile(file, content);
  else if ((await readFile(file, 'utf8').catch(() => '')) !== content)
    throw new Error(`${name} is not what the code yields: run npm run openapi`);
}
