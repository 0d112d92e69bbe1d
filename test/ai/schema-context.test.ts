import test from 'ava';
import { defaultChatModel } from '#domain/ai/models/defaults.ts';
import type { AiModel } from '#domain/ai/gateway/types.ts';
import { schemaContext } from '#domain/ai/schema-context.ts';
import type { DataSchema, Table } from '#domain/data/schema/types.ts';

const tableOf = (name: string, columns: readonly string[]): Table => ({
  name,
  sql: `public.${name}`,
  kind: 'table',
  comment: 'a secret comment',
  rowSecurity: false,
  columns: new Map(
    columns.map((column) => [
      column,
      {
        name: column,
        type: 'text',
        baseType: 'text',
        nullable: true,
        default: `'a secret default'::text`,
        generated: false,
        comment: null,
        enumValues: null,
      },
    ]),
  ),
  primaryKey: [],
  uniques: [],
  relationships: [],
  insertable: true,
  updatable: true,
});

const schemaOf = (tables: readonly Table[]): DataSchema => ({
  version: '1',
  tables: new Map(tables.map((table) => [table.name, table])),
  routines: new Map(),
});

test('of a large schema the tables that the wish is about come whole, the others by name, within the bound', (t) => {
  const many = Array.from({ length: 400 }, (_, number) => tableOf(`archive_${number}`, ['a', 'b', 'c', 'd']));
  const schema = schemaOf([...many, tableOf('zebra_invoices', ['amount']), tableOf('zoo', ['invoice_id'])]);
  const text = schemaContext(schema, { mostChars: 2000, about: 'Which invoice is the largest?' });
  t.true(text.length <= 2000);
  t.true(text.startsWith('table zebra_invoices'));
  t.true(text.indexOf('table zoo') < text.indexOf('table archive_'));
  t.regex(text, /more, by name: archive_/);
  t.notRegex(text, /secret/);
});

test('an empty schema is told as such, and names that need it are quoted', (t) => {
  t.is(schemaContext(schemaOf([]), { mostChars: 100 }), 'Schema public has no tables.');
  t.regex(
    schemaContext(schemaOf([tableOf('Two Words', ['x\ny'])]), { mostChars: 500 }),
    /table "Two Words".*\n {2}"x\\ny"/,
  );
});

const project = { id: 'p', plan: 'free', data_key: Buffer.alloc(0) } as unknown as Parameters<
  typeof defaultChatModel
>[1];
const model = (provider: AiModel['provider'], id: string, type: AiModel['type'] = 'chat'): AiModel => ({
  id,
  provider,
  type,
  context_window: null,
  dimensions: null,
  price: null,
});
const chosen = (models: readonly AiModel[], failed: readonly AiModel['provider'][] = []): Promise<string> =>
  defaultChatModel(
    { models: () => Promise.resolve({ models, failed: failed.map((provider) => ({ provider, message: 'down' })) }) },
    project,
  );

test('without a named model the first provider’s preferred one is taken, else whatever chat model it lists', async (t) => {
  const two = [model('groq', 'llama-3.3-70b-versatile'), model('anthropic', 'claude-sonnet-4-5-20250929')];
  t.is(await chosen(two), 'anthropic/claude-sonnet-4-5-20250929');
  t.is(await chosen([model('openai', 'text-embedding-3-small', 'embedding'), model('openai', 'mine')]), 'openai/mine');
  t.is(await chosen([], ['google']), 'google/gemini-2.5-flash');
  await t.throwsAsync(chosen([]), { message: /no key/ });
});
