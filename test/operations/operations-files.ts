import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { parseAllDocuments } from 'yaml';
import { root } from '#test/architecture/source.ts';

export interface OperationsFile {
  /** From the root of the checkout. */
  readonly name: string;
  readonly text: string;
}

export const readOperations = (...patterns: string[]): OperationsFile[] =>
  globSync(patterns, { cwd: root }).map((name) => ({ name, text: readFileSync(path.join(root, name), 'utf8') }));

/** Everything that operators are given. */
export const operationsFiles = (): OperationsFile[] =>
  readOperations(
    'docs/operations.md',
    'docs/operations/*.*',
    'docs/operations/Dockerfile',
    'docs/operations/{grafana,kubernetes,systemd}/*',
  );

/** The documents of a YAML file, merge keys resolved. */
export const yamlOf = ({ name, text }: OperationsFile): unknown[] =>
  parseAllDocuments(text, { merge: true, uniqueKeys: true }).map((document) => {
    const [fault] = [...document.errors, ...document.warnings];
    if (fault) throw new Error(`${name}: ${fault.message}`);
    return document.toJS() as unknown;
  });

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

/** Every object in a document, however deep. */
export const objectsIn = (value: unknown): Record<string, unknown>[] =>
  isObject(value) ? [value, ...Object.values(value).flatMap(objectsIn)] : [];

/** A setting and the value that a file gives it; null: it comes from elsewhere. */
export interface Given {
  readonly file: string;
  readonly name: string;
  readonly value: string | null;
}

const inYaml = (file: OperationsFile): Given[] =>
  yamlOf(file)
    .flatMap(objectsIn)
    .flatMap((object): [string, unknown][] => {
      if (object['kind'] === 'ConfigMap') return Object.entries(object['data'] ?? {});
      if (Array.isArray(object['env'])) {
        return (object['env'] as { name: string; value?: string }[]).map(({ name, value }) => [name, value]);
      }
      return isObject(object['environment']) && 'command' in object && object['env_file'] !== undefined
        ? Object.entries(object['environment'])
        : [];
    })
    .map(([name, value]) => ({ file: file.name, name, value: typeof value === 'string' ? value : null }));

const inUnit = ({ name: file, text }: OperationsFile): Given[] =>
  [...text.matchAll(/^Environment=(\w+)=(.*)$/gm)].map(([, name = '', value = '']) => ({
    file,
    name,
    value: value.replaceAll('%i', '1'),
  }));

const inDockerfile = ({ name: file, text }: OperationsFile): Given[] =>
  [...text.matchAll(/^ENV (.+)$/gm)].flatMap(([, pairs = '']) =>
    pairs.split(' ').map((pair) => {
      const [name = '', value = ''] = pair.split('=');
      return { file, name, value };
    }),
  );

/** Every setting that a file for deployment gives to one of our processes. */
export const givenSettings = (): Given[] => [
  ...readOperations('docs/operations/compose.yaml', 'docs/operations/kubernetes/*.yaml').flatMap(inYaml),
  ...readOperations('docs/operations/systemd/*').flatMap(inUnit),
  ...readOperations('docs/operations/Dockerfile').flatMap(inDockerfile),
];
