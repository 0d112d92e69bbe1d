import test from 'ava';
import { buildSchema } from 'graphql';
import { readDocument, type DocumentCache, createDocumentCache } from '#domain/data-api/graphql/document.ts';
import { inputsOf, type Fields, VariableUse } from '#domain/data-api/graphql/inputs.ts';
import type { CompiledQuery, Operation } from '#domain/data-api/graphql/operation.ts';

const schema = buildSchema('type Query { f(a: String): Int }');

const known = (kept: DocumentCache, key: string): Operation => {
  const { document } = readDocument(() => schema, '{ f }');
  const operation = document?.operations[0];
  if (document === undefined || operation === undefined) throw new Error('the document was not read');
  kept.keep(key, document);
  return operation;
};

/** Counts how often a statement of that length had to be made, which looks at the variable `v`. */
const asking = (kept: DocumentCache, operation: Operation, letters = 100) => {
  let made = 0;
  const make = (variables: Fields) => (): CompiledQuery => {
    made += 1;
    const inputs = inputsOf(variables, 'late');
    inputs.resolveVariables(new VariableUse('v'));
    return { parts: [], sql: { text: 'x'.repeat(letters), params: [] }, trace: inputs.trace };
  };
  return {
    ask: (v: unknown) => kept.statement(operation, { v }, make({ v })),
    made: () => made,
  };
};

test('a statement is kept for those variables that it was made for', (t) => {
  const kept = createDocumentCache();
  const { ask, made } = asking(kept, known(kept, 'a'));
  const first = ask({ id: 1 });
  t.is(ask({ id: 1 }), first);
  t.not(ask({ id: 2 }), first);
  t.is(ask({ id: 1 }), first);
  t.is(made(), 2);
});

test('a long statement, and one made for large variables, is not kept', (t) => {
  const kept = createDocumentCache();
  const long = asking(kept, known(kept, 'a'), 20_000);
  long.ask(1);
  long.ask(1);
  t.is(long.made(), 2);
  const large = asking(kept, known(kept, 'b'));
  large.ask('v'.repeat(20_000));
  large.ask('v'.repeat(20_000));
  t.is(large.made(), 2);
  large.ask('small');
  large.ask('small');
  t.is(large.made(), 3);
});

test('what is kept together stays within its bytes', (t) => {
  const kept = createDocumentCache(100_000);
  const keys = Array.from({ length: 50 }, (_, index) => `document ${index}`);
  for (const key of keys) asking(kept, known(kept, key), 10_000).ask(key);
  const present = keys.filter((key) => kept.document(key) !== undefined);
  t.true(present.length > 0 && present.length < 6, String(present.length));
  t.true(present.includes('document 49'));
});

test('a long document is not kept', (t) => {
  const kept = createDocumentCache();
  const key = 'x'.repeat(30_000);
  known(kept, key);
  t.is(kept.document(key), undefined);
});

test('an answer about the schema is kept while it is small, for those who see the same', (t) => {
  const kept = createDocumentCache();
  const operation = known(kept, 'a');
  const answer = (about: string, letters: number) =>
    kept.answer(operation, about, () => new Map([['__schema', 'x'.repeat(letters)]]));
  t.is(answer('*', 10), answer('*', 10));
  t.not(answer('*', 10), answer('posts', 10));
  t.not(answer('large', 2_000_000), answer('large', 2_000_000));
});
